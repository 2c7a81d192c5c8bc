"""Reads and writes checkpoints of the vendor's torch_npu.

The vendor's package writes a tensor on npu as a storage on the CPU and a call of torch_npu.utils.storage._rebuild_npu_tensor,
which moves it to the current NPU and casts it to its format. torch.load reads such files, with and without weights_only:

    torch.load("vendor.pt")                                  # to the current NPU
    torch.load("vendor.pt", map_location="npu:1")            # a string, a device or a function: to that device
    torch.load("vendor.pt", map_location={"npu:0": "cpu"})   # a dict: its entry for the current NPU applies

Tensors are written in torch's own form. The vendor's package and a torch without a plugin read that form. A tensor in a private
format (npu/_format.py) is written in the vendor's form, because torch's form does not store the format.
"""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable
from typing import Any

import torch
from torch._guards import detect_fake_mode

from .npu._format import PRIVATE, Format


def register() -> None:
    rebuild = f"{_MODULE}._rebuild_npu_tensor"
    torch.serialization.add_safe_globals([(_rebuild_npu_tensor, rebuild), Format])
    torch.serialization._get_restore_location = _remembering(torch.serialization._get_restore_location)
    torch.Tensor._reduce_ex_internal = _with_format(torch.Tensor._reduce_ex_internal)


_MODULE = "torch_npu.utils.storage"


def _rebuild_npu_tensor(
    storage: Any, storage_offset: int, size: Any, stride: Any, requires_grad: bool, backward_hooks: Any, npu_storage_info: Any
) -> torch.Tensor:
    """Makes the tensor of a checkpoint. npu_storage_info is its format; in old files it is a bool without a meaning."""
    fake = detect_fake_mode() is not None
    tensor = torch._utils._rebuild_tensor(storage if fake else _on_npu(storage), storage_offset, size, stride)
    if fake:
        tensor.fake_device = torch.device(torch._utils._get_restore_location("npu"))
    tensor.requires_grad = requires_grad
    tensor._backward_hooks = backward_hooks
    if tensor.device.type == "npu" and not fake and not isinstance(npu_storage_info, bool):
        from .ops.format import restore_format

        restore_format(tensor, npu_storage_info)
    return tensor


_rebuild_npu_tensor.__module__ = _MODULE


def _on_npu(storage: Any) -> Any:
    """Returns the storage on the device that map_location names, or on npu. Tensors that shared a storage still share it."""
    untyped = storage._untyped_storage
    goal = getattr(untyped, "_npu_goal", {})
    if goal is None or untyped.device.type != "cpu":
        return storage
    if not hasattr(untyped, "_npu_twin"):
        untyped._npu_twin = torch.serialization.default_restore_location(untyped, _of_current(goal))
    if hasattr(untyped, "_torch_load_uninitialized"):
        storage._untyped_storage = untyped._npu_twin  # the old file format: torch fills the storage later
        return storage
    return torch.storage.TypedStorage(wrap_storage=untyped._npu_twin, dtype=storage.dtype, _internal=True)


def _remembering(by_location: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps torch.serialization._get_restore_location. A storage that was saved on the CPU gets the attribute _npu_goal: the dict
    map_location, or None if the storage is on its final device. _on_npu reads it. No device is started, because most of these
    storages do not belong to tensors on npu."""

    @functools.wraps(by_location)
    def remembering(map_location: Any) -> Any:
        restore = by_location(map_location)
        if map_location is None:
            return restore

        def restore_and_remember(storage: Any, location: str) -> Any:
            if callable(map_location):
                restored = map_location(storage, location)
                if restored is None:
                    return torch.serialization.default_restore_location(storage, location)
                goal = None
            else:
                restored = restore(storage, location)
                goal = map_location if isinstance(map_location, dict) and location not in map_location else None
            if location == "cpu" and isinstance(restored, torch.UntypedStorage):
                restored._npu_goal = goal
            return restored

        return restore_and_remember

    return remembering


def _of_current(map_location: dict[str, Any]) -> Any:
    """The entry of a map_location dict for the current NPU."""
    if not map_location:
        return "npu"
    names = ["npu"] if torch.npu.device_count() == 0 else [f"npu:{torch.npu.current_device()}", "npu"]
    return next((map_location[name] for name in names if name in map_location), "npu")


def _with_format(reduce: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(reduce)
    def _reduce_ex_internal(self: torch.Tensor, proto: int) -> Any:
        if type(self) not in (torch.Tensor, torch.nn.Parameter) or self.device.type != "npu" or not torch._C._has_storage(self):
            return reduce(self, proto)
        known = getattr(self.untyped_storage(), "_npu_format", None)
        if known not in PRIVATE or torch.serialization._serialization_tls.skip_data:
            return reduce(self, proto)
        torch.utils.hooks.warn_if_has_hooks(self)
        cpu = self.detach().cpu()
        place = cpu.storage_offset(), tuple(cpu.size()), cpu.stride()
        hooks: collections.OrderedDict[int, Any] = collections.OrderedDict()
        return _rebuild_npu_tensor, (cpu._typed_storage(), *place, self.requires_grad, hooks, int(known))

    return _reduce_ex_internal
