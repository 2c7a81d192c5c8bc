"""Casts of a program's own functions: decorators, and functions that are registered before amp.initialize.

    @amp.half_function
    def attention(query, key, value): ...

    amp.register_float_function(torch, "sigmoid")

They cast only with O1, and where its casts are on. `half` is float16, or the dtype of the torch.autocast region around.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NoReturn

from ._amp_state import _amp_state
from .patches import casting

REGISTERED: list[tuple[Any, str, str]] = []


def half_function(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: casts floating tensors among the arguments to float16."""
    return _decorated(fn, "half")


def float_function(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: casts floating tensors among the arguments to float32."""
    return _decorated(fn, "float")


def promote_function(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: casts to float32 if there are arguments of float16 and of float32."""
    return _decorated(fn, "promote")


def register_half_function(module: Any, name: str) -> None:
    """Makes O1 cast the arguments of module.name to float16."""
    _register(module, name, "half")


def register_float_function(module: Any, name: str) -> None:
    """Makes O1 cast the arguments of module.name to float32."""
    _register(module, name, "float")


def register_promote_function(module: Any, name: str) -> None:
    """Makes O1 cast the arguments of module.name to float32 if their dtypes differ."""
    _register(module, name, "promote")


def init(*args: Any, **kwargs: Any) -> NoReturn:
    """The interface before amp.initialize; not offered."""
    raise RuntimeError("amp.init is the old interface: write model, optimizer = amp.initialize(model, optimizer, opt_level='O1')")


def _decorated(fn: Callable[..., Any], kind: str) -> Callable[..., Any]:
    cast = casting(fn, kind)

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        handle = _amp_state.handle
        return (fn if handle is None or not handle.is_active() else cast)(*args, **kwargs)

    return call


def _register(module: Any, name: str, kind: str) -> None:
    if not hasattr(module, name):
        raise ValueError(f"{getattr(module, '__name__', module)} has no function {name!r} to register")
    REGISTERED.append((module, name, kind))
    if _amp_state.handle is not None:
        _amp_state.handle.register(module, name, kind)
