import torch

DEVICES = ("cuda:0", "cuda:1")
pairs = [(0, "cuda:0")]
names = {"cuda:0": "first"}
message = "cuda:0 is full"
print(torch.__version__, DEVICES, pairs, names, message)
