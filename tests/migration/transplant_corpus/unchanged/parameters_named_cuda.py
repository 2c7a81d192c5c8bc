import torch


def run(cuda=True, nccl=None):
    if cuda:
        return cuda
    return torch.ones(1), nccl


run(cuda=False, nccl="nccl version")
