"""Marks of public names that do nothing (no_op) or raise (not_offered). A name without a mark works.

    @no_op("softnpu compiles nothing")
    def set_aoe(dump_path): ...

    @not_offered("operators are not fused into one kernel; leave it out")
    def super_kernel_scope_begin(scope_name=None): ...

The marked function keeps its signature. A no-op runs its body, which may check or store its arguments. A name that is not offered
raises NotImplementedError with its name and the reason; in a marked class, the constructor and every public method raise.
docs/api.md is generated from these marks.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

_Named = TypeVar("_Named")


def no_op(reason: str) -> Callable[[_Named], _Named]:
    return lambda obj: marked(obj, "no-op", reason)


def not_offered(reason: str) -> Callable[[_Named], _Named]:
    def mark(obj: Any) -> Any:
        if not inspect.isclass(obj):
            return _refusing(obj, reason)
        for name, method in list(vars(obj).items()):
            if isinstance(method, (staticmethod, classmethod)):
                setattr(obj, name, type(method)(_refusing(method.__func__, reason)))
            elif inspect.isfunction(method) and (name == "__init__" or not name.startswith("_")):
                setattr(obj, name, _refusing(method, reason))
        if "__init__" not in vars(obj):
            obj.__init__ = _refusing(_no_arguments, reason, obj)
        return marked(obj, "not offered", reason)

    return mark


def state(obj: Any) -> tuple[str, str]:
    """("works", ""), ("no-op", reason) or ("not offered", reason)."""
    return getattr(obj, "__offer__", ("works", ""))


def _no_arguments(self: Any) -> None: ...


def marked(obj: Any, state: str, reason: str) -> Any:
    """Marks an object that refuses or ignores calls by itself."""
    obj.__offer__ = (state, reason)
    return obj


def _refusing(function: Callable[..., Any], reason: str, named: Any = None) -> Any:
    named = named or function
    name = f"{named.__module__}.{named.__qualname__.removesuffix('.__init__')}"

    @functools.wraps(function)
    def refuse(*_: Any, **__: Any) -> None:
        raise NotImplementedError(f"{name} is not offered: {reason}")

    return marked(refuse, "not offered", reason)
