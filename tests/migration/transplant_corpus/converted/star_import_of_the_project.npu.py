from common import *

if torch.npu.is_available():
    net = nn.Linear(2, 2).npu()
