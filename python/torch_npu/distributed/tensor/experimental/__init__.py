"""Attention over sequences that are distributed over devices."""

from __future__ import annotations

from typing import Any

from ...._api_status import not_offered

__all__ = ["context_parallel"]


@not_offered("call torch.distributed.tensor.experimental.context_parallel, which is torch's own")
def context_parallel(
    mesh: Any,
    *,
    buffers: list[Any] | None = None,
    buffer_seq_dims: list[int] | None = None,
    no_restore_buffers: set[Any] | None = None,
) -> Any: ...
