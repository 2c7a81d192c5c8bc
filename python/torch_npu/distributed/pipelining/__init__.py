"""Pipelines of stages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["pipeline"]


def pipeline(
    module: Any,
    mb_args: tuple[Any, ...],
    mb_kwargs: dict[str, Any] | None = None,
    split_spec: dict[str, Any] | None = None,
    split_policy: Callable[..., Any] | None = None,
    mode: Any = None,
    atomic_units: Any = None,
) -> Any:
    """torch.distributed.pipelining.pipeline. `mode` and `atomic_units` raise NotImplementedError, because torch lacks them."""
    from torch.distributed import pipelining

    given = [name for name, value in (("mode", mode), ("atomic_units", atomic_units)) if value is not None]
    if given:
        raise NotImplementedError(f"pipeline does not offer the argument {', '.join(given)}; leave it out")
    return pipelining.pipeline(module, mb_args, mb_kwargs, split_spec, split_policy)
