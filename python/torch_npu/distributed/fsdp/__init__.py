"""Sharded parameters."""

from ..._offer import not_offered
from ..distributed_c10d import NO_HCCL

__all__ = ["fully_shard"]


@not_offered(NO_HCCL)
def fully_shard(*args, **kwargs): ...
