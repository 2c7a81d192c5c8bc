"""TorchScript that names CUDA itself. Prints what it computed."""

import io
import json

import torch
from torch import Tensor, nn

where = "cuda" if torch.cuda.is_available() else "cpu"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x: Tensor, device: str) -> Tensor:
        x = x.to(device)
        if x.device.type == "cuda":
            x = x + torch.zeros(4, device="cuda") + torch.ones(4).to("cuda") - torch.ones(4).cuda()
        return self.linear(x + torch.arange(4, device=torch.device(device)))


torch.manual_seed(0)
net = torch.jit.script(Net().to(where))
optimizer = torch.optim.SGD(net.parameters(), 0.01)
x, losses = torch.linspace(-1, 1, 8).view(2, 4), []
for _ in range(4):
    loss = net(x, where).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
file = io.BytesIO()
torch.jit.save(net, file)
file.seek(0)
loaded = torch.jit.load(file, map_location=where)
assert next(loaded.parameters()).device.type == where
print(json.dumps([losses, loaded(x, where).tolist()]))
