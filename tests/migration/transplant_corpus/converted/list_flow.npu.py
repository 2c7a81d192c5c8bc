import torch_npu
import torch

places = ["npu:0", "npu:1", "cpu"]
for place in places:
    print(torch.zeros(1).to(place))
for index, where in enumerate(["npu", "cpu"]):
    torch.zeros(1, device=where)
first = torch.zeros(1).to(places[0])
labels = ["cuda", "cpu"]
print(labels)
