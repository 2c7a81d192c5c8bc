"""Sharded parameters."""

from __future__ import annotations

from typing import Any

__all__ = ["fully_shard"]


def fully_shard(*args: Any, **kwargs: Any) -> Any:
    """torch.distributed.fsdp.fully_shard, which takes modules on npu."""
    from torch.distributed import fsdp

    return fsdp.fully_shard(*args, **kwargs)
