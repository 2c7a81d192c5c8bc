import torch

config = {"device": "cuda", "name": "cuda", "place": "cuda:0"}
options = dict(device="cuda", name="cuda")
x = torch.zeros(2).to(config["place"])
y = torch.zeros(2).to(config["device"])
config["device"] = "cuda:1"
z = config.get("device", "cuda")
counts = {"cuda": 1, "cpu": 2}
print(counts["cuda"])
