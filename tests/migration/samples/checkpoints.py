"""Models are saved and loaded, alone and with the training state; the prefix of DataParallel is removed from names."""

import copy

import torch

net = torch.nn.Linear(4, 2).npu()
torch.save(net.state_dict(), "state_dict_model.pt")
model = torch.nn.Linear(4, 2)
model.load_state_dict(torch.load("state_dict_model.pt"))
model.eval()
assert not model.weight.is_npu and torch.equal(model.weight, net.weight.cpu())

optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
best_acc1 = net(torch.randn(3, 4).npu()).sum()
best_acc1.backward()
optimizer.step()
state = {"epoch": 1, "best_acc1": best_acc1.detach(), "state_dict": net.state_dict(), "optimizer": optimizer.state_dict()}
torch.save(state, "checkpoint.pth.tar")
expected = copy.deepcopy(net)
optimizer.step()

checkpoint = torch.load("checkpoint.pth.tar")
net.load_state_dict(checkpoint["state_dict"])
optimizer.load_state_dict(checkpoint["optimizer"])
assert checkpoint["epoch"] == 1 and checkpoint["best_acc1"].is_npu
assert torch.equal(net.weight, expected.weight)
assert all(each["momentum_buffer"].is_npu for each in optimizer.state.values())

torch.save({"state_dict": {"module." + name: value for name, value in net.state_dict().items()}}, "checkpoint.pth")
long_names = torch.load("checkpoint.pth", map_location="npu:0")["state_dict"]
net.load_state_dict({name.removeprefix("module."): value for name, value in long_names.items()})

# A module object in a checkpoint is code: torch loads it only with weights_only=False.
torch.save({"embedding": torch.nn.Embedding(3, 2).npu()}, "with_module.pth.tar")
try:
    torch.load("with_module.pth.tar")
    raise AssertionError("torch loads modules by default")
except Exception as error:
    assert "weights_only" in str(error)
assert torch.load("with_module.pth.tar", weights_only=False)["embedding"].weight.is_npu
