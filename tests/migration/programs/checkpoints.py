"""Training is saved, loaded with every form of map_location, and continued. Prints the losses."""

import io
import json
import pickle

import torch

device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
torch.manual_seed(0)
inputs, targets = torch.randn(32, 8), torch.randn(32, 2)


def make():
    model = torch.nn.Linear(8, 2).to(device)
    return model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def step(model, optimizer):
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(inputs.to(device)), targets.to(device))
    loss.backward()
    optimizer.step()
    return loss.item()


model, optimizer = make()
losses = [step(model, optimizer) for _ in range(3)]
file = io.BytesIO()
torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "device": device}, file)
losses += [step(model, optimizer) for _ in range(2)]

name = str(device)
forms = [None, device, name, {name: "cpu"}, {name: name}, lambda storage, location: storage, "cpu", device.type, "meta"]
expected = [device.type, device.type, device.type, "cpu", device.type, "cpu", "cpu", device.type, "meta"]
for form, where in zip(forms, expected, strict=True):
    file.seek(0)
    loaded = torch.load(file, map_location=form, weights_only=True)
    assert loaded["model"]["weight"].device.type == where, (form, loaded["model"]["weight"].device)
    assert loaded["device"] == device and isinstance(loaded["device"], torch.device)
    if where == "meta":
        continue
    model, optimizer = make()
    model.load_state_dict(loaded["model"])
    optimizer.load_state_dict(loaded["optimizer"])
    assert [step(model, optimizer) for _ in range(2)] == losses[3:], form

assert pickle.loads(pickle.dumps(device)) == device
assert pickle.loads(pickle.dumps(model)).weight.device == device
print(json.dumps(losses))
