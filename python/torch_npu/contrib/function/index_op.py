"""Assignment by a condition."""

from typing import Any

import torch


def npu_fast_condition_index_put(x: torch.Tensor, condition: torch.Tensor, value: Any) -> torch.Tensor:
    """A copy of x with value where the condition, a bool tensor, is True."""
    if condition.dtype != torch.bool:
        raise TypeError(f"condition is bool, not {condition.dtype}; write condition.bool()")
    return torch.where(condition, torch.as_tensor(value, dtype=x.dtype, device=x.device), x)
