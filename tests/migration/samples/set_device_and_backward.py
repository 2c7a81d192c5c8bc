"""The current device may be set before or after work on the CPU; backward runs on it."""

import torch


def run(move):
    input = torch.randn(200, 100).detach().requires_grad_()
    output = torch.sum(move(input))
    output.backward(torch.ones_like(output))
    assert torch.equal(input.grad, torch.ones(200, 100))
    return output.device


run(lambda tensor: tensor)
torch.npu.set_device("npu:1")
assert run(lambda tensor: tensor.npu()) == torch.device("npu:1")
run(lambda tensor: tensor)
torch.npu.set_device("npu:0")
