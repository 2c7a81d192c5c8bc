import torch_npu
import torch

gpu = 0
a = torch.device("npu:%d" % gpu)
b = torch.device("npu:{}".format(gpu))
c = torch.device("npu:" + str(gpu))
d = torch.load("x.pt", map_location="npu:%d" % gpu)
print("cuda:%d is used" % gpu)
