"""The order of the elements of a tensor in an HDF5 dump. Needs neither numpy nor torch."""

from __future__ import annotations

import math
from collections.abc import Sequence

_CPU, _CUDA = 0, 1


def in_memory_order(device: int, shape: Sequence[int], stride: Sequence[int]) -> bool:
    """Whether the elements are in the order of the tensor's memory, which `stride` describes, instead of the order of `shape`.

    The vendor's msaccucmp uses this order for tensors of the CPU and of CUDA whose memory has no gaps."""
    if device not in (_CPU, _CUDA) or len(stride) != len(shape) or 0 in shape:
        return False
    last = sum((size - 1) * step for size, step in zip(shape, stride, strict=True))
    return last < math.prod(shape)
