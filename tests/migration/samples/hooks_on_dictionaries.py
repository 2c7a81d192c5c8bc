"""Gradients of a module that returns a dictionary with lists. An old hook, `register_backward_hook`, ends with StopIteration on
every device: torch looks for a tensor among the values. Hooks on the tensors themselves see every gradient."""

import torch
from torch import nn


class Losses(nn.Module):
    def forward(self, x):
        return {"loss": [x.pow(2).sum(), x.sum()]}


for device in ("cpu", "npu"):
    module = Losses()
    handle = module.register_backward_hook(lambda *_: None)
    x = torch.ones(3, device=device, requires_grad=True)
    try:
        module(x)
        raise AssertionError("torch has learned it")
    except (StopIteration, RuntimeError):
        handle.remove()
    gradients = []
    losses = module(x)["loss"]
    for loss in losses:
        loss.register_hook(gradients.append)
    sum(losses).backward()
    assert [gradient.item() for gradient in gradients] == [1, 1] and x.grad.tolist() == [3, 3, 3]
