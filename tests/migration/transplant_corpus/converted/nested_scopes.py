import torch


def outer():
    device = "cuda"

    def inner(x):
        return x.to(device)

    return inner


class Holder:
    torch = "not the module"

    def method(self):
        return torch.cuda.current_device()


def with_global():
    global place
    place = "cuda"


x = torch.zeros(1, device=place)
