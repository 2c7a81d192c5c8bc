"""TorchScript, torch.compile, torch.func and models without data, with devices named in each. Prints the values."""

import io
import json

import torch

device = "cuda" if torch.cuda.is_available() else "cpu"
where = torch.device(device)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 2, device=device)

    def forward(self, x):
        if x.device.type == "cuda":
            x = x.to("cuda") + torch.zeros(4, device="cuda") + torch.zeros(4).cuda() * x.new_zeros(4, device="cuda:0")
        elif x.is_cuda:
            raise RuntimeError("both or none")
        return self.linear(x.to(where)) * torch.ones((), device=x.device)


@torch.jit.script
def scripted(x, device: torch.device):
    if torch.is_autocast_enabled():
        x = x.float()
    y = torch.arange(3, device=device) + torch.tensor([1, 2, 3], device=device)
    return x.to(device) + y


torch.manual_seed(0)
net = Net()
with torch.no_grad():
    net.linear.weight.copy_(torch.arange(8.0).reshape(2, 4) / 8)
    net.linear.bias.zero_()
x = torch.arange(4.0, device=device)
results = [net(x).tolist(), scripted(torch.ones(3), where).tolist()]
for backend in ("eager", "aot_eager"):
    compiled = torch.compile(net, backend=backend, fullgraph=True)
    y = compiled(x)
    y.sum().backward()
    assert y.device.type == device
    results.append(y.tolist())
    with torch.autocast("cuda", enabled=device == "cuda"):
        assert (compiled(x).dtype == torch.float16) == (device == "cuda")
file = io.BytesIO()
torch.jit.save(torch.jit.trace(torch.nn.ReLU(), x), file)
file.seek(0)
results.append(torch.jit.load(file, map_location=device)(x - 2).tolist())
with torch.device("meta"):
    empty = torch.nn.Linear(2, 2)
assert empty.weight.is_meta and empty.to_empty(device=device).weight.device.type == device
with torch.device(device):
    results.append(torch.func.grad(lambda value: (value**2).sum())(torch.ones(2)).tolist())
packed = torch.nn.utils.rnn.pack_padded_sequence(torch.ones(2, 3, 4, device=device), [3, 2], batch_first=True)
lstm = torch.nn.LSTM(4, 2).to(device)
assert packed.is_cuda == lstm(packed)[0].is_cuda == (device == "cuda")
print(json.dumps(results))
