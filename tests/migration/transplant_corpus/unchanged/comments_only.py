# x = x.cuda()
# device = "cuda"
import torch  # torch.cuda

x = torch.ones(1)
