"""A quick check of operators, autograd, an optimizer, streams, memory and errors, compared with the CPU."""

import torch
import torch_npu
from torch import nn


def close(npu, cpu):
    torch.testing.assert_close(npu.cpu(), cpu, rtol=1e-4, atol=1e-5)


def check_operators():
    a, b = torch.randn(33, 17), torch.randn(33, 17)
    x, y = a.npu(), b.npu()
    for function in (torch.add, torch.mul, torch.maximum, torch.lt, lambda a, b: a @ b.t(), lambda a, b: torch.cat([a, b])):
        close(function(x, y), function(a, b))
    for function in (torch.exp, torch.tanh, torch.relu, lambda t: t.softmax(1), lambda t: t.sum(0), lambda t: t.t() + 1):
        close(function(x), function(a))
    close(x[1:, ::2], a[1:, ::2])


def check_training():
    def train(device):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 10)).to(device)
        inputs, targets = torch.randn(4, 3, 8, 8).to(device), torch.arange(4).to(device)
        optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
        for _ in range(5):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(inputs), targets)
            loss.backward()
            optimizer.step()
        return loss.detach()

    close(train("npu"), train("cpu"))


def check_streams_and_memory():
    side, event = torch.npu.Stream(), torch.npu.Event()
    x = torch.ones(1000, device="npu")
    event.record()
    with torch.npu.stream(side):
        event.wait(side)
        y = x * 3
    torch.npu.current_stream().wait_stream(side)
    assert (y + x).sum().item() == 4000
    del x, y
    torch.npu.synchronize()
    torch.npu.empty_cache()


def check_errors():
    for wrong in (lambda: torch.ones(2, device="npu") + torch.ones(3, device="npu"), lambda: torch.ones(2, device="npu:99")):
        try:
            wrong()
        except RuntimeError as error:
            assert str(error)
        else:
            raise AssertionError("a wrong call was not refused")


for check in (check_operators, check_training, check_streams_and_memory, check_errors):
    check()
    print(f"{check.__name__}: ok")
library = torch_npu._C._npu_library_info()
print(f"torch {torch.__version__}, torch_npu {torch_npu.__version__}, device library {library['origin']}: ok")
