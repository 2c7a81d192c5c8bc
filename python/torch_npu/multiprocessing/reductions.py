"""Tensors, storages and events of npu in other processes, through the queues and pipes of torch.multiprocessing.

    queue.put(torch.ones(3, device="npu"))      # in one process
    x = queue.get()                             # in another one: the same memory, on the same device

Nothing is copied, so that both see what either writes. The sender must live until the tensor is received; its memory stays until
every receiver has let go of it, as csrc/core/memory/shared_memory.h says. Start processes with "spawn" or "forkserver": a child of
fork() cannot use a device that its parent used. What was received cannot be sent on: clone it first.
"""

import functools
import threading
import warnings
from multiprocessing.reduction import ForkingPickler
from multiprocessing.util import Finalize

import torch
from torch.multiprocessing import reductions
from torch.multiprocessing.reductions import StorageWeakRef, rebuild_tensor, reduce_storage, shared_cache, storage_from_cache

from .. import _C

__all__ = ["rebuild_npu_event", "rebuild_npu_tensor"]


def rebuild_npu_event(device, handle):
    """The event of another process whose ipc_handle() that is."""
    return torch.npu.Event.from_ipc_handle(device, handle)


def rebuild_npu_tensor(
    tensor_cls,
    tensor_size,
    tensor_stride,
    tensor_offset,
    storage_cls,
    dtype,
    storage_device,
    storage_handle,
    storage_size_bytes,
    storage_offset_bytes,
    requires_grad,
    ref_counter_handle,
    ref_counter_offset,
    event_handle,
    event_sync_required,
):
    """A tensor, or with `tensor_cls` a Parameter, on the storage of which _share_npu_() gave the values in the middle."""
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


def _register():
    """Tensors of every layout and parameters are sent as torch does, as their storages: these, and events, are sent here."""
    reductions.reduce_tensor = _with_npu(reductions.reduce_tensor)
    for kind in (torch.Tensor, torch.nn.Parameter):
        ForkingPickler.register(kind, reductions.reduce_tensor)
    ForkingPickler.register(torch.UntypedStorage, _reduce_storage)
    ForkingPickler.register(torch.npu.Event, _reduce_event)
    torch.UntypedStorage._share_npu_ = _share_npu_
    torch.UntypedStorage._new_shared_npu = classmethod(_new_shared_npu)
    torch.UntypedStorage._release_ipc_counter_npu = classmethod(_release_ipc_counter_npu)


def _with_npu(reduce_tensor):
    """torch's own, which takes a tensor on npu for one on CUDA while transfer_to_npu is applied: here it never does."""

    @functools.wraps(reduce_tensor)
    def reduce(tensor):
        cannot_be_sent = tensor.requires_grad and not tensor.is_leaf
        if tensor.device.type != "npu" or tensor.layout != torch.strided or tensor.is_nested or cannot_be_sent:
            return reduce_tensor(tensor)
        torch.utils.hooks.warn_if_has_hooks(tensor)
        metadata = tensor.storage_offset(), tensor.size(), tensor.stride(), tensor.requires_grad
        return rebuild_tensor, (type(tensor), tensor._typed_storage(), metadata)

    return reduce


def _reduce_event(event):
    return rebuild_npu_event, (event.device, event.ipc_handle())


def _reduce_storage(storage):
    if storage.device.type != "npu":
        return reduce_storage(storage)
    try:
        return _rebuild_storage, storage._share_npu_()
    except RuntimeError as error:
        # The thread that feeds a queue can raise to nobody, and the receiver would wait for ever: so the receiver is told.
        if threading.current_thread().name != "QueueFeederThread":
            raise
        return _refuse, (str(error),)


def _refuse(reason):
    raise RuntimeError(f"the sender of a tensor on npu could not send it: {reason}")


def _share_npu_(storage):
    """What _new_shared_npu() takes in another process. Each call is for one receiver."""
    _warn_at_exit()
    shared = _C._npu_send_storage(storage)
    _, handle, _, offset, *_ = shared
    shared_cache[(handle, offset)] = StorageWeakRef(storage)
    return shared


def _new_shared_npu(
    cls, device, handle, size_bytes, offset_bytes, ref_counter_handle, ref_counter_offset, event_handle, event_sync_required
):
    event = event_handle if event_sync_required else b""
    return _C._npu_receive_storage(device, handle, size_bytes, offset_bytes, ref_counter_handle, ref_counter_offset, event)


def _release_ipc_counter_npu(cls, ref_counter_handle, ref_counter_offset, device=None):
    """Tells the sender that this process does not need what was sent: it has the storage already."""
    _C._npu_drop_sent_storage(ref_counter_handle, ref_counter_offset)


def _rebuild_storage(
    device, handle, size_bytes, offset_bytes, ref_counter_handle, ref_counter_offset, event_handle, event_sync_required
):
    torch.npu._lazy_init()  # not in a child of fork(), whatever the cache has
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


def _warn_at_exit():
    global _warns_at_exit
    if not _warns_at_exit:
        _warns_at_exit = True
        # After multiprocessing has waited for children (0) and for the threads that feed queues (-5).
        Finalize(None, _warn_of_receivers, exitpriority=-100)


def _warn_of_receivers():
    if not torch.npu._is_in_bad_fork() and _C._npu_ipc_collect() > 0:
        warnings.warn(
            "this process ends while others have tensors on npu that it sent, or have yet to receive them: their memory goes "
            "with it; let it wait for them",
            stacklevel=1,
        )
