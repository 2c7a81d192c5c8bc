"""Checkpoints of the real package, read and written.

The real package writes a tensor on npu as a storage on the CPU and a call of torch_npu.utils.storage._rebuild_npu_tensor, which
brings it to the current NPU and casts it to its format. Such files load here, with and without weights_only:

    torch.load("real.pt")                                  # the current NPU
    torch.load("real.pt", map_location="npu:1")            # a string, a device or a function: where that puts the storage
    torch.load("real.pt", map_location={"npu:0": "cpu"})   # a dict: the tensor counts as one of the current NPU

Tensors are written as torch writes them, which the real package reads, and so does a torch without any plugin. Only a tensor in
a private format (npu/_format.py) is written as the real package does it, because torch's way has no place for the format.
"""

import collections
import functools

import torch
from torch._guards import detect_fake_mode

from .npu._format import PRIVATE, Format


def register():
    rebuild = f"{_MODULE}._rebuild_npu_tensor"
    torch.serialization.add_safe_globals([(_rebuild_npu_tensor, rebuild), Format])
    torch.serialization._get_restore_location = _remembering(torch.serialization._get_restore_location)
    torch.Tensor._reduce_ex_internal = _with_format(torch.Tensor._reduce_ex_internal)


_MODULE = "torch_npu.utils.storage"


def _rebuild_npu_tensor(storage, storage_offset, size, stride, requires_grad, backward_hooks, npu_storage_info):
    """The tensor of a checkpoint. npu_storage_info is its format; old files have a bool in that place, which says nothing."""
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


def _on_npu(storage):
    """The storage where map_location put it, else on npu. Storages that were one stay one."""
    untyped = storage._untyped_storage
    goal = getattr(untyped, "_npu_goal", {})
    if goal is None or untyped.device.type != "cpu":
        return storage
    if not hasattr(untyped, "_npu_twin"):
        untyped._npu_twin = torch.serialization.default_restore_location(untyped, _of_current(goal))
    if hasattr(untyped, "_torch_load_uninitialized"):
        storage._untyped_storage = untyped._npu_twin  # a file of the old form: its end, which is read later, fills the storage
        return storage
    return torch.storage.TypedStorage(wrap_storage=untyped._npu_twin, dtype=storage.dtype, _internal=True)


def _remembering(by_location):
    """_get_restore_location, whose function leaves in a storage that was saved on the CPU what map_location says of tensors on
    npu: a dict, or None if the storage is where it is to be. No device is touched: few of them will be tensors on npu."""

    @functools.wraps(by_location)
    def remembering(map_location):
        restore = by_location(map_location)
        if map_location is None:
            return restore

        def restore_and_remember(storage, location):
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


def _of_current(map_location):
    """Where a dict sends what was on the current NPU."""
    if not map_location:
        return "npu"
    names = ["npu"] if torch.npu.device_count() == 0 else [f"npu:{torch.npu.current_device()}", "npu"]
    return next((map_location[name] for name in names if name in map_location), "npu")


def _with_format(reduce):
    @functools.wraps(reduce)
    def _reduce_ex_internal(self, proto):
        if type(self) not in (torch.Tensor, torch.nn.Parameter) or self.device.type != "npu" or not torch._C._has_storage(self):
            return reduce(self, proto)
        known = getattr(self.untyped_storage(), "_npu_format", None)
        if known not in PRIVATE or torch.serialization._serialization_tls.skip_data:
            return reduce(self, proto)
        torch.utils.hooks.warn_if_has_hooks(self)
        cpu = self.detach().cpu()
        place = cpu.storage_offset(), tuple(cpu.size()), cpu.stride()
        state = self.requires_grad, collections.OrderedDict(), int(known)
        return _rebuild_npu_tensor, (cpu._typed_storage(), *place, *state)

    return _reduce_ex_internal
