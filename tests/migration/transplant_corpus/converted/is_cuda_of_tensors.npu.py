import torch_npu
import torch


def check(x, module):
    if x.is_npu and next(module.parameters()).is_npu:
        return torch.ones(1).is_npu
    return not x.is_npu
