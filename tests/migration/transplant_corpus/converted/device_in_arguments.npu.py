import argparse

import torch_npu
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="npu", choices=["npu", "cpu"], help="cuda or cpu")
parser.add_argument("--gpu-name", default="cuda")
parser.add_argument("--cuda", action="store_true", help="use cuda")
args = parser.parse_args()
device = torch.device(args.device)
if args.cuda and args.device == "npu":
    print("cuda is used")
