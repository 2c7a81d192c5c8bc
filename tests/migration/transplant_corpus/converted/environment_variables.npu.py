import os

import torch_npu
import torch

os.environ["ASCEND_RT_VISIBLE_DEVICES"] = "0,1"
os.environ.setdefault("ASCEND_LAUNCH_BLOCKING", "1")
visible = os.getenv("ASCEND_RT_VISIBLE_DEVICES", "")
print("set CUDA_VISIBLE_DEVICES first")
os.system("ASCEND_RT_VISIBLE_DEVICES=0 python other.py")
x = torch.ones(1).npu()
