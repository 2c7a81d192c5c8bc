import torch_npu
import torch

DEVICES = ("npu:0", "npu:1")
pairs = [(0, "npu:0")]
names = {"cuda:0": "first"}
message = "cuda:0 is full"
print(torch.__version__, DEVICES, pairs, names, message)
