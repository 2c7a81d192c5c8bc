"""Compilation of a traced model into an NPU graph: not offered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..._api_status import not_offered
from . import inference, scope  # noqa: F401

_REASON = 'models are not compiled into NPU graphs; call the model itself, or torch.compile it with backend="npu"'


def _trace(*args: Any) -> Any: ...


def _accept(match: Any) -> Any: ...


@not_offered(_REASON)
def compile_fx(gm: Any, example_inputs: Any = None, options: Any = None) -> Any: ...


@not_offered(_REASON)
def register_replacement(
    search_fn: Callable[..., Any],
    replace_fn: Callable[..., Any],
    example_inputs: Sequence[Any],
    trace_fn: Callable[..., Any] = _trace,
    extra_check: Callable[..., Any] = _accept,
    search_fn_pattern: Any = None,
    scalar_workaround: dict[str, Any] | None = None,
    skip_duplicates: bool = False,
) -> Any: ...
