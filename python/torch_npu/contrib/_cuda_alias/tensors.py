"""Methods of tensors, checkpoints and the state of autocast."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch

from ...npu._utils import _get_device_index
from .device_name import Name
from .replacement import Replacement

if TYPE_CHECKING:
    from torch.types import Device


def replacements() -> Iterator[Replacement]:
    yield from _methods()
    yield from _checkpoints()
    yield from _autocast()


def _methods() -> Iterator[Replacement]:
    Tensor = torch.Tensor
    as_type, pin_memory, is_pinned = Tensor.type, Tensor.pin_memory, Tensor.is_pinned
    set_default_type = torch.set_default_tensor_type

    def cuda(
        self: torch.Tensor,
        device: Device = None,
        non_blocking: bool = False,
        memory_format: torch.memory_format = torch.preserve_format,
    ) -> torch.Tensor:
        there = torch.device("npu", _get_device_index(device, optional=True))
        return self.to(there, non_blocking=non_blocking, memory_format=memory_format)

    @functools.wraps(as_type)
    def type_(self: Any, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
        if isinstance(dtype, str):
            dtype = str(dtype).replace("torch.cuda.", "torch.npu.")
        found = as_type(self, dtype, *args, **kwargs)
        return Name(found) if isinstance(found, str) and self.is_npu else found

    @functools.wraps(set_default_type)
    def set_default_tensor_type(t: Any, /) -> None:
        set_default_type(t.replace("torch.cuda.", "torch.npu.") if isinstance(t, str) else t)

    yield Tensor, "cuda", cuda
    yield Tensor, "is_cuda", property(lambda self: self.is_npu)
    yield Tensor, "type", type_
    yield torch, "set_default_tensor_type", set_default_tensor_type
    # `device` is deprecated in torch: memory is pinned for the one accelerator.
    yield Tensor, "pin_memory", lambda self, device=None: pin_memory(self)
    yield Tensor, "is_pinned", lambda self, device=None: is_pinned(self)


def _checkpoints() -> Iterator[Replacement]:
    """map_location={"cuda:0": ...} also applies to storages that were saved from npu."""
    by_location = torch.serialization._get_restore_location

    def by_location_of_npu(map_location: Any) -> Any:
        if isinstance(map_location, dict):
            twins = {name.replace("cuda", "npu", 1): value for name, value in map_location.items() if name.startswith("cuda")}
            map_location = twins | map_location
        return by_location(map_location)

    yield torch.serialization, "_get_restore_location", by_location_of_npu


def _autocast() -> Iterator[Replacement]:
    """The state of torch.autocast("cuda") is that of "npu". Without a device type, these functions mean CUDA, and so npu."""

    def by_type(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def for_npu(device_type: Any = "npu", *args: Any) -> Any:
            if isinstance(device_type, bool):  # the old form, which takes no device type
                return function("npu", device_type)
            return function("npu" if device_type == "cuda" else device_type, *args)

        return for_npu

    for name in ("is_autocast_enabled", "set_autocast_enabled", "get_autocast_dtype", "set_autocast_dtype"):
        twin = by_type(getattr(torch, name))
        keep_scripting(getattr(torch, name), twin)
        yield torch, name, twin
    yield torch, "get_autocast_gpu_dtype", functools.partial(torch.get_autocast_dtype, "npu")
    yield torch, "set_autocast_gpu_dtype", functools.partial(torch.set_autocast_dtype, "npu")


def keep_scripting(function: Callable[..., Any], twin: Callable[..., Any]) -> None:
    """Registers the twin with torch.jit.script, which knows functions of torch by identity."""
    operator = torch.jit._builtins._find_builtin(function)
    if operator is not None:
        torch.jit._builtins._register_builtin(twin, operator)
