"""Distributed training: HCCL, the collectives of NPUs, is not there yet.

Until then a process group of the backend gloo works, with tensors on the CPU; `torch.distributed` itself is torch's.
"""

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


def is_available():
    """Whether collectives between NPUs are there: not yet."""
    return is_hccl_available()
