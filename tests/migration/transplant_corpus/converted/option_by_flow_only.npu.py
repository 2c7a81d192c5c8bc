import argparse

import torch_npu
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--where", type=str, default="npu")
parser.add_argument("--label", type=str, default="cuda")
args = parser.parse_args()
x = torch.ones(3).to(args.where)
print(args.label)
