"""Sharded parameters."""

from __future__ import annotations

from typing import Any

from ..._api_status import not_offered

__all__ = ["fully_shard"]


@not_offered("call torch.distributed.fsdp.fully_shard, which is torch's own")
def fully_shard(*args: Any, **kwargs: Any) -> Any: ...
