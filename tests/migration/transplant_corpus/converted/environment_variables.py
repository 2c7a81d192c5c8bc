import os

import torch

os.environ["CUDA_VISIBLE_DEVICES"] = "0,1"
os.environ.setdefault("CUDA_LAUNCH_BLOCKING", "1")
visible = os.getenv("CUDA_VISIBLE_DEVICES", "")
print("set CUDA_VISIBLE_DEVICES first")
os.system("CUDA_VISIBLE_DEVICES=0 python other.py")
x = torch.ones(1).cuda()
