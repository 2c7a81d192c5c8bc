import torch_npu
import torch

config = {"device": "npu", "name": "cuda", "place": "npu:0"}
options = dict(device="npu", name="cuda")
x = torch.zeros(2).to(config["place"])
y = torch.zeros(2).to(config["device"])
config["device"] = "npu:1"
z = config.get("device", "npu")
counts = {"cuda": 1, "cpu": 2}
print(counts["cuda"])
