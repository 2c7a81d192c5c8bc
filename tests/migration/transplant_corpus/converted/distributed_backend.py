import argparse

import torch.distributed as dist
from torch.distributed import init_process_group

parser = argparse.ArgumentParser()
parser.add_argument("--dist-backend", default="nccl", type=str)
parser.add_argument("--library", default="nccl")
args = parser.parse_args()
dist.init_process_group("nccl", rank=0, world_size=1)
init_process_group(backend="nccl" if dist.is_nccl_available() else "gloo")
dist.new_group(backend="cpu:gloo,cuda:nccl")
if args.dist_backend == "nccl" or dist.get_backend() == "nccl":
    print("nccl is used")
