import torch

rank = 0
location = {"cuda:%d" % 0: "cuda:%d" % rank}
a = torch.load("a.pt", map_location=location)
b = torch.load("b.pt", map_location=lambda storage, loc: storage.cuda(0))
c = torch.load("c.pt", "cuda")
d = torch.load("d.pt", map_location={"cuda:0": "cpu"})
