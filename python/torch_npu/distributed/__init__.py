"""Distributed training: what `torch.distributed` does not have for NPUs. docs/distributed.md is for users."""

from __future__ import annotations

from .distributed_c10d import (
    ProcessGroupHCCL,
    all_gather_into_tensor_uneven,
    is_hccl_available,
    reduce_scatter_tensor_uneven,
    reinit_process_group,
)

__all__ = [
    "ProcessGroupHCCL",
    "all_gather_into_tensor_uneven",
    "is_available",
    "is_hccl_available",
    "reduce_scatter_tensor_uneven",
    "reinit_process_group",
]


def is_available() -> bool:
    """Whether collectives between NPUs are available."""
    return is_hccl_available()
