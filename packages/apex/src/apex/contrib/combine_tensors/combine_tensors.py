"""torch_npu.utils.combine_tensors by the names of apex."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch


def combine_npu(list_of_tensor: Iterable[torch.Tensor], require_copy_value: bool = True) -> torch.Tensor | None:
    """The flat tensor, or None if there are no elements. With require_copy_value=False all values become zero."""
    return _offered().npu_combine_tensors(list_of_tensor, require_copy_value)


def get_part_combined_tensor(combined_tensor: torch.Tensor | None, index: int, size: int) -> torch.Tensor | None:
    """`size` elements starting at `index`, as a flat view; None if there are none."""
    return _offered().get_part_combined_tensor(combined_tensor, index, size)


def is_combined_tensor_valid(combined_tensor: torch.Tensor | None, list_of_tensor: Sequence[torch.Tensor | None]) -> bool:
    """Whether all of these tensors are in the memory of the combined one."""
    return _offered().is_combined_tensor_valid(combined_tensor, list_of_tensor)


def _offered() -> Any:
    try:
        from torch_npu.utils import combine_tensors
    except ImportError as error:
        raise ImportError("apex.contrib.combine_tensors needs torch_npu: install it") from error
    return combine_tensors
