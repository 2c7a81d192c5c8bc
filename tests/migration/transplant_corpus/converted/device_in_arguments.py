import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"], help="cuda or cpu")
parser.add_argument("--gpu-name", default="cuda")
parser.add_argument("--cuda", action="store_true", help="use cuda")
args = parser.parse_args()
device = torch.device(args.device)
if args.cuda and args.device == "cuda":
    print("cuda is used")
