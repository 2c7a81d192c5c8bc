"""Observers of chosen operators, put between the dispatcher and the kernel; see docs/debugging.md.

    def observe(op, args, kwargs):                     # before the kernel; op is a torch._ops.OpOverload
        return lambda result: print(op, result.shape)  # after it; None: nothing to do

    names = matching("add|mul")
    watch(names, observe)
    unwatch(names, observe)

Observers are called in the thread that runs the operator, the autograd engine's too, with gradients and modes off. What they run
themselves is not observed. An operator that nobody watches keeps the kernel that it has.
"""

import contextlib
import functools
import re
import threading

import torch

from .. import _C

# What they answer depends on where the tensors are.
DEVICE_MATTERS = {"aten::_has_compatible_shallow_copy_type", "aten::is_pinned", "aten::_pin_memory"}
_FALLBACK_PARTS = re.compile(r"aten::(copy_|_to_copy|_copy_from|_copy_from_and_resize|resize_|empty.*|set_)(\..*)?")
_lock = threading.RLock()
_watched = {}
_thread = threading.local()


def overload(name):
    """`aten::add.Tensor` as torch.ops.aten.add.Tensor."""
    space, _, rest = name.partition("::")
    base, _, overload_name = rest.partition(".")
    return getattr(getattr(getattr(torch.ops, space), base), overload_name or "default")


def _has_kernel(name, *keys):
    return any(torch._C._dispatch_has_kernel_for_dispatch_key(name, key) for key in keys)


def _reaches_device(name):
    """Whether calls with npu tensors come to PrivateUse1. Of a composition above autograd only the parts do."""
    if "c10d" in name:
        return False
    if _has_kernel(name, "PrivateUse1"):
        return True
    if _has_kernel(name, "CompositeImplicitAutograd"):
        return False
    return _has_kernel(name, "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional", "CPU")


def can_fall_back(name):
    """Not what the fallback itself is made of, views, and what the CPU lacks."""
    if name in DEVICE_MATTERS or _FALLBACK_PARTS.fullmatch(name):
        return False
    if not torch._C._dispatch_has_computed_kernel_for_dispatch_key(name, "CPU"):
        return False
    returns = torch._C._get_schema(*_split(name)).returns
    return all(item.alias_info is None or item.alias_info.is_write for item in returns)


def _split(name):
    base, _, overload_name = name.partition(".")
    return base, overload_name


def matching(pattern):
    """The operators that reach the device and that the expression matches as a whole: as `aten::add.Tensor`, or without the
    namespace, the overload, or both. ValueError if it is none."""
    if not isinstance(pattern, str):
        raise TypeError(f"operators are named by a regular expression such as '.*softmax', but got {pattern!r}")
    try:
        fullmatch = re.compile(pattern).fullmatch
    except re.error as error:
        raise ValueError(f"{pattern!r} is no regular expression: {error}") from None

    def matches(name):
        space_and_base = name.partition(".")[0]
        return any(map(fullmatch, (name, name.partition("::")[2], space_and_base, space_and_base.partition("::")[2])))

    # A library that is not loaded, such as torchvision, has kernels here and no operators yet.
    operators = (f"{schema.name}.{schema.overload_name}".rstrip(".") for schema in torch._C._jit_get_all_schemas())
    kernels = set(torch._C._dispatch_get_all_op_names())
    return sorted(name for name in set(operators) & kernels if matches(name) and _reaches_device(name))


class _Operator:
    """The kernels that one operator has for the time being."""

    def __init__(self, name):
        self.name = name
        self.observers = []
        self.forced = 0
        self._overrides = []

    def install(self):
        while self._overrides:  # the newest first
            self._overrides.pop()
        if not self.observers and not self.forced:
            return
        if self.forced:
            self._overrides.append(_C._force_fallback(self.name))
        if self.observers:
            self._overrides.append(_C._observe(self.name, self._begin))

    def _begin(self, args, kwargs):
        if getattr(_thread, "observes", False):
            return None
        op = overload(self.name)
        with _observing():
            done = [finish for observe in self.observers if (finish := observe(op, args, kwargs))]
        return functools.partial(self._end, done) if done else None

    @staticmethod
    def _end(done, result):
        with _observing():
            for finish in done:
                finish(result)


@contextlib.contextmanager
def _observing():
    _thread.observes = True
    try:
        with torch._C._AutoDispatchBelowAutograd(), torch._C.DisableTorchFunction(), torch.autocast("cpu", enabled=False):
            yield
    finally:
        _thread.observes = False


@contextlib.contextmanager
def _change(names):
    with _lock:
        chosen = [_watched.setdefault(name, _Operator(name)) for name in names]
        yield chosen
        for operator in chosen:
            operator.install()
            if not operator.observers and not operator.forced:
                del _watched[operator.name]


def watch(names, observer):
    with _change(names) as chosen:
        for operator in chosen:
            operator.observers.append(observer)


def unwatch(names, observer):
    with _change(names) as chosen:
        for operator in chosen:
            operator.observers.remove(observer)


def force_fallback(names, wanted):
    """Each call with True needs one with False."""
    with _change(names) as chosen:
        for operator in chosen:
            operator.forced += 1 if wanted else -1
