import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--where", type=str, default="cuda")
parser.add_argument("--label", type=str, default="cuda")
args = parser.parse_args()
x = torch.ones(3).to(args.where)
print(args.label)
