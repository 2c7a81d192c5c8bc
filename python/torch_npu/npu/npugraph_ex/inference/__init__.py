"""Compiled models kept on disk: not offered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...._api_status import not_offered

_REASON = "models are not compiled into NPU graphs; call the model itself"


@not_offered(_REASON)
def cache_compile(
    func: Callable[..., Any],
    *,
    dynamic: bool = True,
    cache_dir: str | None = None,
    global_rank: int | None = None,
    tp_rank: int | None = None,
    pp_rank: int | None = None,
    **kwargs: Any,
) -> Any: ...


@not_offered(_REASON)
def readable_cache(cache_bin: str, print_output: bool = True, file: str | None = None) -> Any: ...
