"""Distributed training. HCCL, the collectives of NPUs, is not implemented yet.

Process groups of the backend gloo work with tensors on the CPU. `torch.distributed` itself is torch's.
"""

from __future__ import annotations

from .distributed_c10d import (
    all_gather_into_tensor_uneven,
    is_hccl_available,
    reduce_scatter_tensor_uneven,
    reinit_process_group,
)

__all__ = [
    "all_gather_into_tensor_uneven",
    "is_available",
    "is_hccl_available",
    "reduce_scatter_tensor_uneven",
    "reinit_process_group",
]


def is_available() -> bool:
    """Whether collectives between NPUs are available: not yet."""
    return is_hccl_available()
