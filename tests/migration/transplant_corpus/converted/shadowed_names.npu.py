import torch_npu
import torch


def fake(torch):
    return torch.cuda.is_available()


def local():
    cuda = Car()
    cuda.start()
    torch = Library()
    return torch.cuda


def real():
    return torch.npu.is_available()
