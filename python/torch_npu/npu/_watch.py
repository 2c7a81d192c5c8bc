"""Observers of operators: functions that are called before and after the kernel; see docs/debugging.md.

    def observe(op, args, kwargs):                     # before the kernel; op is a torch._ops.OpOverload
        return lambda result: print(op, result.shape)  # after it; None: nothing to do

    names = matching("add|mul")
    watch(names, observe)
    unwatch(names, observe)

An observer is called in the thread that runs the operator, which may be a thread of autograd, with gradients and modes off. Its
own operators are not observed. Operators without an observer keep their kernel and cost nothing extra.
"""

from __future__ import annotations

import contextlib
import functools
import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch

from .. import _C

Observer = Callable[[Any, tuple[Any, ...], dict[str, Any]], Callable[[Any], None] | None]

# Their results depend on the device of the tensors.
DEVICE_MATTERS = {"aten::_has_compatible_shallow_copy_type", "aten::is_pinned", "aten::_pin_memory"}
_FALLBACK_PARTS = re.compile(r"aten::(copy_|_to_copy|_copy_from|_copy_from_and_resize|resize_|empty.*|set_)(\..*)?")
# With None torch.compile compiles nothing: else it would compile observers. _dynamo.py exempts _begin and _end themselves.
_set_compiler = torch._C._dynamo.eval_frame.set_eval_frame
_lock = threading.RLock()
_watched: dict[str, _Operator] = {}
_thread = threading.local()


def overload(name: str) -> Any:
    """`aten::add.Tensor` as torch.ops.aten.add.Tensor."""
    space, _, rest = name.partition("::")
    base, _, overload_name = rest.partition(".")
    return getattr(getattr(getattr(torch.ops, space), base), overload_name or "default")


def _has_kernel(name: str, *keys: str) -> bool:
    return any(torch._C._dispatch_has_kernel_for_dispatch_key(name, key) for key in keys)


def _reaches_device(name: str) -> bool:
    """Whether calls with npu tensors reach the key PrivateUse1. A CompositeImplicitAutograd operator does not; its parts do."""
    if "c10d" in name:
        return False
    if _has_kernel(name, "PrivateUse1"):
        return True
    if _has_kernel(name, "CompositeImplicitAutograd"):
        return False
    return _has_kernel(name, "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional", "CPU")


def can_fall_back(name: str) -> bool:
    """False for operators that the fallback itself uses, for views, and for operators without a CPU kernel."""
    if name in DEVICE_MATTERS or _FALLBACK_PARTS.fullmatch(name):
        return False
    if not torch._C._dispatch_has_computed_kernel_for_dispatch_key(name, "CPU"):
        return False
    returns = torch._C._get_schema(*_split(name)).returns
    return all(item.alias_info is None or item.alias_info.is_write for item in returns)


def _split(name: str) -> tuple[str, str]:
    base, _, overload_name = name.partition(".")
    return base, overload_name


def matching(pattern: str) -> list[str]:
    """The operators that reach the device and whose name the whole expression matches. A name is `aten::add.Tensor`, or that
    without the namespace, the overload, or both. Raises ValueError for an invalid expression."""
    if not isinstance(pattern, str):
        raise TypeError(f"operators are named by a regular expression such as '.*softmax', but got {pattern!r}")
    try:
        fullmatch = re.compile(pattern).fullmatch
    except re.error as error:
        raise ValueError(f"{pattern!r} is no regular expression: {error}") from None

    def matches(name: str) -> bool:
        space_and_base = name.partition(".")[0]
        return any(map(fullmatch, (name, name.partition("::")[2], space_and_base, space_and_base.partition("::")[2])))

    # torch registers kernels for libraries that are not loaded yet, such as torchvision. These have no schemas.
    operators = (f"{schema.name}.{schema.overload_name}".rstrip(".") for schema in torch._C._jit_get_all_schemas())
    kernels = set(torch._C._dispatch_get_all_op_names())
    return sorted(name for name in set(operators) & kernels if matches(name) and _reaches_device(name))


class _Operator:
    """The observers of an operator, and the kernels that are installed for them."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.observers: list[Observer] = []
        self.forced = 0
        self._overrides: list[Any] = []

    def install(self) -> None:
        while self._overrides:  # the newest is removed first
            self._overrides.pop()
        if not self.observers and not self.forced:
            return
        if self.forced:
            self._overrides.append(_C._force_fallback(self.name))
        if self.observers:
            self._overrides.append(_C._observe(self.name, self._begin))

    def _begin(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[[Any], None] | None:
        compiler = _set_compiler(None)
        try:
            return self._call_observers(args, kwargs)
        finally:
            _set_compiler(compiler)

    def _call_observers(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[[Any], None] | None:
        if getattr(_thread, "observes", False):
            return None
        op = overload(self.name)
        with _observing():
            done = [finish for observe in self.observers if (finish := observe(op, args, kwargs))]
        return functools.partial(self._end, done) if done else None

    @staticmethod
    def _end(done: list[Callable[[Any], None]], result: Any) -> None:
        compiler = _set_compiler(None)
        try:
            with _observing():
                for finish in done:
                    finish(result)
        finally:
            _set_compiler(compiler)


@contextlib.contextmanager
def _observing() -> Iterator[None]:
    _thread.observes = True
    try:
        with torch._C._AutoDispatchBelowAutograd(), torch._C.DisableTorchFunction(), torch.autocast("cpu", enabled=False):
            yield
    finally:
        _thread.observes = False


@contextlib.contextmanager
def _change(names: list[str]) -> Iterator[list[_Operator]]:
    with _lock:
        chosen = [_watched.setdefault(name, _Operator(name)) for name in names]
        yield chosen
        for operator in chosen:
            operator.install()
            if not operator.observers and not operator.forced:
                del _watched[operator.name]


def watch(names: list[str], observer: Observer) -> None:
    with _change(names) as chosen:
        for operator in chosen:
            operator.observers.append(observer)


def unwatch(names: list[str], observer: Observer) -> None:
    with _change(names) as chosen:
        for operator in chosen:
            operator.observers.remove(observer)


def force_fallback(names: list[str], wanted: bool) -> None:
    """Counts: each call with True needs a call with False."""
    with _change(names) as chosen:
        for operator in chosen:
            operator.forced += 1 if wanted else -1
