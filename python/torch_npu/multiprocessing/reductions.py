"""Tensors, storages and events of npu in other processes, through the queues and pipes of torch.multiprocessing.

    queue.put(torch.ones(3, device="npu"))      # in one process
    x = queue.get()                             # in another one: the same memory, on the same device

Nothing is copied: both processes see each other's writes. The sender must live until the tensor is received. The sender keeps the
memory until every receiver has released it (csrc/core/memory/shared_memory.h). Start processes with "spawn" or "forkserver": a
child of fork() cannot use a device that its parent used. A received tensor cannot be sent on: clone it first.
"""

from __future__ import annotations

import functools
import threading
import warnings
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from multiprocessing.util import Finalize
from typing import Any, NoReturn

import torch
from torch.multiprocessing import reductions
from torch.multiprocessing.reductions import StorageWeakRef, rebuild_tensor, reduce_storage, shared_cache, storage_from_cache

from .. import _C

__all__ = ["rebuild_npu_event", "rebuild_npu_tensor"]


def rebuild_npu_event(device: Any, handle: bytes) -> Any:
    """Opens an event of another process by its ipc_handle()."""
    return torch.npu.Event.from_ipc_handle(device, handle)


def rebuild_npu_tensor(
    tensor_cls: type,
    tensor_size: Any,
    tensor_stride: Any,
    tensor_offset: int,
    storage_cls: type,
    dtype: torch.dtype,
    storage_device: int,
    storage_handle: bytes | None,
    storage_size_bytes: int,
    storage_offset_bytes: int,
    requires_grad: bool,
    ref_counter_handle: bytes,
    ref_counter_offset: int,
    event_handle: bytes,
    event_sync_required: bool,
) -> torch.Tensor:
    """Makes a tensor, or a Parameter if tensor_cls is that, on a received storage. _share_npu_() returned the arguments from
    storage_device to event_sync_required, without requires_grad."""
    storage = _rebuild_storage(
        storage_device,
        storage_handle,
        storage_size_bytes,
        storage_offset_bytes,
        ref_counter_handle,
        ref_counter_offset,
        event_handle,
        event_sync_required,
    )
    typed = torch.storage.TypedStorage(wrap_storage=storage, dtype=dtype, _internal=True)
    tensor = torch._utils._rebuild_tensor(typed, tensor_offset, tensor_size, tensor_stride)
    if tensor_cls is torch.nn.Parameter:
        return torch.nn.Parameter(tensor, requires_grad=requires_grad)
    return tensor.requires_grad_(requires_grad)


def _register() -> None:
    """torch sends tensors and parameters as their storages. This module sends the storages on npu, and events."""
    reductions.reduce_tensor = _with_npu(reductions.reduce_tensor)
    for kind in (torch.Tensor, torch.nn.Parameter):
        ForkingPickler.register(kind, reductions.reduce_tensor)
    ForkingPickler.register(torch.UntypedStorage, _reduce_storage)
    ForkingPickler.register(torch.npu.Event, _reduce_event)
    torch.UntypedStorage._share_npu_ = _share_npu_
    torch.UntypedStorage._new_shared_npu = classmethod(_new_shared_npu)
    torch.UntypedStorage._release_ipc_counter_npu = classmethod(_release_ipc_counter_npu)


def _with_npu(reduce_tensor: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps torch's reduce_tensor, which would treat a tensor on npu as one on CUDA while transfer_to_npu is applied."""

    @functools.wraps(reduce_tensor)
    def reduce(tensor: torch.Tensor) -> Any:
        cannot_be_sent = tensor.requires_grad and not tensor.is_leaf
        if tensor.device.type != "npu" or tensor.layout != torch.strided or tensor.is_nested or cannot_be_sent:
            return reduce_tensor(tensor)
        torch.utils.hooks.warn_if_has_hooks(tensor)
        metadata = tensor.storage_offset(), tensor.size(), tensor.stride(), tensor.requires_grad
        return rebuild_tensor, (type(tensor), tensor._typed_storage(), metadata)

    return reduce


def _reduce_event(event: Any) -> tuple[Any, ...]:
    return rebuild_npu_event, (event.device, event.ipc_handle())


def _reduce_storage(storage: Any) -> tuple[Any, ...]:
    if storage.device.type != "npu":
        return reduce_storage(storage)
    try:
        return _rebuild_storage, storage._share_npu_()
    except RuntimeError as error:
        # An exception in the feeder thread of a queue is lost, and the receiver would wait forever. So the receiver gets the
        # error.
        if threading.current_thread().name != "QueueFeederThread":
            raise
        return _refuse, (str(error),)


def _refuse(reason: str) -> NoReturn:
    raise RuntimeError(f"the sender of a tensor on npu could not send it: {reason}")


def _share_npu_(storage: Any) -> tuple[Any, ...]:
    """The arguments for _new_shared_npu() in another process. Each call is for one receiver."""
    _warn_at_exit()
    shared = _C._npu_send_storage(storage)
    _, handle, _, offset, *_ = shared
    shared_cache[(handle, offset)] = StorageWeakRef(storage)
    return shared


def _new_shared_npu(
    cls: Any,
    device: int,
    handle: bytes | None,
    size_bytes: int,
    offset_bytes: int,
    ref_counter_handle: bytes,
    ref_counter_offset: int,
    event_handle: bytes,
    event_sync_required: bool,
) -> Any:
    event = event_handle if event_sync_required else b""
    return _C._npu_receive_storage(device, handle, size_bytes, offset_bytes, ref_counter_handle, ref_counter_offset, event)


def _release_ipc_counter_npu(cls: Any, ref_counter_handle: bytes, ref_counter_offset: int, device: Any = None) -> None:
    """Releases a sent storage that this process does not need because it has that storage already."""
    _C._npu_drop_sent_storage(ref_counter_handle, ref_counter_offset)


def _rebuild_storage(
    device: int,
    handle: bytes | None,
    size_bytes: int,
    offset_bytes: int,
    ref_counter_handle: bytes,
    ref_counter_offset: int,
    event_handle: bytes,
    event_sync_required: bool,
) -> Any:
    torch.npu._lazy_init()  # raises in a forked child, also if the storage is cached
    cls = torch.UntypedStorage
    if handle is None or size_bytes == 0:
        return cls(0, device=torch.device("npu", device))
    key = (handle, offset_bytes)
    storage = storage_from_cache(cls, key)
    if storage is not None:
        if event_sync_required:
            rebuild_npu_event(device, event_handle).wait(torch.npu.current_stream(device))
        cls._release_ipc_counter_npu(ref_counter_handle, ref_counter_offset, device=device)
        return storage
    counter = ref_counter_handle, ref_counter_offset
    storage = cls._new_shared_npu(device, handle, size_bytes, offset_bytes, *counter, event_handle, event_sync_required)
    shared_cache[key] = StorageWeakRef(storage)
    return storage


_warns_at_exit = False


def _warn_at_exit() -> None:
    global _warns_at_exit
    if not _warns_at_exit:
        _warns_at_exit = True
        # Runs after multiprocessing has joined children (priority 0) and the feeder threads of queues (-5).
        Finalize(None, _warn_of_receivers, exitpriority=-100)


def _warn_of_receivers() -> None:
    if not torch.npu._is_in_bad_fork() and _C._npu_ipc_collect() > 0:
        warnings.warn(
            "this process ends while other processes use, or have not yet received, tensors on npu that it sent; their memory "
            "is freed with this process: wait for the receivers before it ends",
            stacklevel=1,
        )
