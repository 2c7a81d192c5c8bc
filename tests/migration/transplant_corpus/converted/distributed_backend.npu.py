import argparse

import torch_npu
import torch.distributed as dist
from torch.distributed import init_process_group

parser = argparse.ArgumentParser()
parser.add_argument("--dist-backend", default="hccl", type=str)
parser.add_argument("--library", default="nccl")
args = parser.parse_args()
dist.init_process_group("hccl", rank=0, world_size=1)
init_process_group(backend="hccl" if dist.is_hccl_available() else "gloo")
dist.new_group(backend="cpu:gloo,npu:hccl")
if args.dist_backend == "hccl" or dist.get_backend() == "hccl":
    print("nccl is used")
