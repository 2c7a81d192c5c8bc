"""Checks the installation: multiplies two matrices on npu."""

import torch
import torch_npu  # noqa: F401

x = torch.randn(2, 2).npu()
y = torch.randn(2, 2).npu()
z = x.mm(y)

print(z)
torch.testing.assert_close(z.cpu(), x.cpu().mm(y.cpu()))
