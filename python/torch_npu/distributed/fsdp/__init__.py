"""Sharded parameters."""

from __future__ import annotations

from typing import Any

from ..._api_status import not_offered
from ..distributed_c10d import NO_HCCL

__all__ = ["fully_shard"]


@not_offered(NO_HCCL)
def fully_shard(*args: Any, **kwargs: Any) -> Any: ...
