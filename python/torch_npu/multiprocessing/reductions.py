"""Tensors and events of npu in other processes: not offered, since device memory is not shared between processes.

Send `tensor.cpu()` through a queue or pipe of torch.multiprocessing, and move it by `.npu()` in the other process.
"""

import threading
from multiprocessing.reduction import ForkingPickler

import torch
from torch.multiprocessing.reductions import reduce_storage

from .._offer import not_offered

__all__ = ["rebuild_npu_event", "rebuild_npu_tensor"]

_REASON = "device memory is not shared between processes; send tensor.cpu(), and call .npu() in the other process"


@not_offered(_REASON)
def rebuild_npu_event(device, handle): ...


@not_offered(_REASON)
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
): ...


def _register():
    """Gives the attempt an error that says so; torch's own speaks of file descriptors."""
    ForkingPickler.register(torch.UntypedStorage, _reduce_storage)


def _reduce_storage(storage):
    if storage.device.type != "npu":
        return reduce_storage(storage)
    # The thread that feeds a queue can raise to nobody, and the receiver would wait for ever: so the receiver is told.
    if threading.current_thread().name == "QueueFeederThread":
        return _refuse, (str(storage.device),)
    return _refuse(storage.device)


def _refuse(device):
    raise RuntimeError(f"a tensor on {device} cannot be sent to another process: {_REASON}")
