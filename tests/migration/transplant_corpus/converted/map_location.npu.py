import torch_npu
import torch

rank = 0
location = {"npu:%d" % 0: "npu:%d" % rank}
a = torch.load("a.pt", map_location=location)
b = torch.load("b.pt", map_location=lambda storage, loc: storage.npu(0))
c = torch.load("c.pt", "npu")
d = torch.load("d.pt", map_location={"npu:0": "cpu"})
