"""A product with the transpose of a matrix."""

from typing import Any

import torch


def matmul_transpose(*args: Any, **kwargs: Any) -> torch.Tensor:
    """matmul_transpose(tensor1, tensor2): tensor1 @ tensor2.transpose(-2, -1)."""
    return _product(*args, **kwargs)


def _product(tensor1: torch.Tensor, tensor2: torch.Tensor) -> torch.Tensor:
    return tensor1 @ tensor2.transpose(-2, -1)
