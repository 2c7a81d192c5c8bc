"""Attention over sequences that are spread over devices."""

from ...._offer import not_offered
from ...distributed_c10d import NO_HCCL

__all__ = ["context_parallel"]


@not_offered(NO_HCCL)
def context_parallel(mesh, *, buffers=None, buffer_seq_dims=None, no_restore_buffers=None): ...
