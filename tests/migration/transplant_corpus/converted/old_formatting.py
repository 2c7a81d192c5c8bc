import torch

gpu = 0
a = torch.device("cuda:%d" % gpu)
b = torch.device("cuda:{}".format(gpu))
c = torch.device("cuda:" + str(gpu))
d = torch.load("x.pt", map_location="cuda:%d" % gpu)
print("cuda:%d is used" % gpu)
