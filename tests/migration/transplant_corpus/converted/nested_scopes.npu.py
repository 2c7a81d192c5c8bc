import torch_npu
import torch


def outer():
    device = "npu"

    def inner(x):
        return x.to(device)

    return inner


class Holder:
    torch = "not the module"

    def method(self):
        return torch.npu.current_device()


def with_global():
    global place
    place = "npu"


x = torch.zeros(1, device=place)
