"""Pipelines of stages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..._api_status import not_offered

__all__ = ["pipeline"]


@not_offered("call torch.distributed.pipelining.pipeline, which is torch's own")
def pipeline(
    module: Any,
    mb_args: tuple[Any, ...],
    mb_kwargs: dict[str, Any] | None = None,
    split_spec: dict[str, Any] | None = None,
    split_policy: Callable[..., Any] | None = None,
    mode: Any = None,
    atomic_units: Any = None,
) -> Any: ...
