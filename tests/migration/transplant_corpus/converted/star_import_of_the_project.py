from common import *

if torch.cuda.is_available():
    net = nn.Linear(2, 2).cuda()
