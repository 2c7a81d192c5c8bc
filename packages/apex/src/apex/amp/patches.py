"""Functions that are replaced by others, which cast their arguments first, and put back later."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping
from typing import Any

import torch

floating_dtypes = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})
_LOW = frozenset({torch.float16, torch.bfloat16})


class Patches:
    """Replaced attributes of modules and classes. Kinds of casts: "half" (all floating tensors to the dtype of autocast),
    "float" (all to float32) and "promote" (to float32 if the dtypes differ)."""

    def __init__(self) -> None:
        self._is_open = True
        self._undo: dict[tuple[int, str], Callable[[], None]] = {}

    def replace(self, owner: Any, name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        """Replaces an attribute by make(attribute), once. The new function calls the old one after undo()."""
        if (id(owner), name) in self._undo:
            return
        original = getattr(owner, name)
        made = make(original)

        def call(*args: Any, **kwargs: Any) -> Any:
            return (made if self._is_open else original)(*args, **kwargs)

        with contextlib.suppress(AttributeError, TypeError):
            functools.update_wrapper(call, original)
        is_own = name in vars(owner)
        before = vars(owner).get(name)
        setattr(owner, name, call)

        def restore() -> None:
            # Another library may have replaced the function in the meantime.
            if vars(owner).get(name) is not call:
                return
            if is_own:
                setattr(owner, name, before)
            else:
                delattr(owner, name)

        self._undo[id(owner), name] = restore

    def remove(self, owner: Any, name: str) -> None:
        """Puts one function back."""
        restore = self._undo.pop((id(owner), name), None)
        if restore is not None:
            restore()

    def cast(self, owner: Any, name: str, kind: str, first: str | None = None) -> None:
        """Casts the arguments of a function while autocast is on for their device. first: a cast before this one."""
        self.replace(owner, name, lambda function: casting(function, kind, first))

    def without_autocast(self, owner: Any, name: str) -> None:
        """Runs a function in the dtypes of its arguments."""

        def make(function: Callable[..., Any]) -> Callable[..., Any]:
            def call(*args: Any, **kwargs: Any) -> Any:
                device = device_of(args, kwargs)
                with torch.autocast(device, enabled=False) if device else contextlib.nullcontext():
                    return function(*args, **kwargs)

            return call

        self.replace(owner, name, make)

    def ban(self, owner: Any, name: str, message: str) -> None:
        """Refuses float16 arguments while autocast is on, and runs other calls without autocast."""

        def make(function: Callable[..., Any]) -> Callable[..., Any]:
            def call(*args: Any, **kwargs: Any) -> Any:
                device = device_of(args, kwargs)
                if device is None or not torch.is_autocast_enabled(device):
                    return function(*args, **kwargs)
                if _dtypes((args, kwargs)) & _LOW:
                    raise NotImplementedError(message)
                with torch.autocast(device, enabled=False):
                    return function(*args, **kwargs)

            return call

        self.replace(owner, name, make)

    def undo(self) -> None:
        """Puts all functions back."""
        self._is_open = False
        for restore in reversed(self._undo.values()):
            restore()
        self._undo.clear()


def casting(function: Callable[..., Any], kind: str, first: str | None = None) -> Callable[..., Any]:
    """A function that casts its arguments while autocast is on for the device of its first floating tensor. A function of torch
    then runs without autocast, which could cast them back."""
    is_torchs = str(getattr(function, "__module__", None) or "torch").split(".")[0] in ("torch", "torch_npu")

    def call(*args: Any, **kwargs: Any) -> Any:
        device = device_of(args, kwargs)
        if device is None or not torch.is_autocast_enabled(device):
            return function(*args, **kwargs)
        for each in (first, kind):
            if each is not None:
                args, kwargs = _cast(args, kwargs, each, device)
        if not is_torchs:
            return function(*args, **kwargs)
        with torch.autocast(device, enabled=False):
            return function(*args, **kwargs)

    return call


def _cast(args: Any, kwargs: Any, kind: str, device: str) -> tuple[Any, Any]:
    if kind == "half":
        return cast_tensors((args, kwargs), torch.get_autocast_dtype(device))
    if kind == "promote" and len(_dtypes((args, kwargs)) & (_LOW | {torch.float32})) < 2:
        return args, kwargs
    return cast_tensors((args, kwargs), torch.float32, _LOW)


def cast_tensors(value: Any, dtype: torch.dtype, dtypes: frozenset[torch.dtype] = floating_dtypes) -> Any:
    """The value with each tensor of these dtypes cast, also in lists, tuples and dictionaries."""
    if isinstance(value, torch.Tensor):
        return value.to(dtype) if value.dtype in dtypes and value.dtype != dtype else value
    if isinstance(value, (list, tuple)):
        items = [cast_tensors(each, dtype, dtypes) for each in value]
        if isinstance(value, torch.Size) or all(new is old for new, old in zip(items, value, strict=True)):
            return value
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, Mapping):
        return {key: cast_tensors(each, dtype, dtypes) for key, each in value.items()}
    return value


def device_of(args: Any, kwargs: Any) -> str | None:
    """The device type of the first floating tensor."""
    for value in (*args, *kwargs.values()) if kwargs else args:
        if isinstance(value, torch.Tensor):
            if value.dtype in floating_dtypes:
                return value.device.type
        elif isinstance(value, (list, tuple)) and value:
            found = device_of(value, {})
            if found is not None:
                return found
    return None


def _dtypes(value: Any) -> set[torch.dtype]:
    if isinstance(value, torch.Tensor):
        return {value.dtype} & floating_dtypes
    if isinstance(value, (list, tuple)):
        return set().union(*(_dtypes(each) for each in value)) if value else set()
    if isinstance(value, Mapping):
        return _dtypes(list(value.values()))
    return set()
