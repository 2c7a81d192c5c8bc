"""Assignment by a condition."""

import torch


def npu_fast_condition_index_put(x, condition, value):
    """x, with value where the condition, a bool tensor, is True; x itself is left as it is."""
    if condition.dtype != torch.bool:
        raise TypeError(f"condition is bool, not {condition.dtype}; write condition.bool()")
    return torch.where(condition, torch.as_tensor(value, dtype=x.dtype, device=x.device), x)
