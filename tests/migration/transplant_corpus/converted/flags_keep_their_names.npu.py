import argparse

import torch_npu
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--no-cuda", action="store_true", default=False)
args = parser.parse_args()
use_cuda = not args.no_cuda and torch.npu.is_available()
args.cuda = use_cuda
kwargs = {"num_workers": 1, "pin_memory": True} if args.cuda else {}
device = torch.device("npu" if use_cuda else "cpu")
