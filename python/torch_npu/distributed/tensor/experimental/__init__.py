"""Attention over sequences that are distributed over devices."""

from __future__ import annotations

from typing import Any

__all__ = ["context_parallel"]


def context_parallel(
    mesh: Any,
    *,
    buffers: list[Any] | None = None,
    buffer_seq_dims: list[int] | None = None,
    no_restore_buffers: set[Any] | None = None,
) -> Any:
    """torch.distributed.tensor.experimental.context_parallel."""
    from torch.distributed.tensor import experimental

    return experimental.context_parallel(
        mesh, buffers=buffers, buffer_seq_dims=buffer_seq_dims, no_restore_buffers=no_restore_buffers
    )
