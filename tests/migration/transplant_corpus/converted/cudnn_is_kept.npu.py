import torch_npu
import torch
import torch.backends.cudnn as cudnn

cudnn.benchmark = True
torch.backends.cudnn.deterministic = True
torch.backends.cuda.matmul.allow_tf32 = True
torch.npu.manual_seed(1)
