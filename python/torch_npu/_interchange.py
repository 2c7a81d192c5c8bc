"""Tensors on their way between npu and others: DLPack, other processes, and checkpoints of other devices.

torch.from_dlpack(x)                # x on npu: shares the memory
queue.put(x)                        # refused: the memory of a device belongs to one process
torch.load("saved_on_cuda.pt")      # refused where there is no CUDA; says to write map_location="npu"
"""

import functools
import threading
from multiprocessing.reduction import ForkingPickler

import torch
from torch.multiprocessing.reductions import reduce_storage
from torch.overrides import has_torch_function_unary
from torch.utils.dlpack import DLDeviceType


def register():
    torch.Tensor.__dlpack_device__ = _with_npu(torch.Tensor.__dlpack_device__)
    ForkingPickler.register(torch.UntypedStorage, _reduce_storage)
    torch.serialization.register_package(_BEFORE_CUDA, lambda storage: None, _explain_cuda)


def _with_npu(dlpack_device):
    """torch's own knows PrivateUse1 by its first name only, and takes all pinned memory for CUDA's."""

    @functools.wraps(dlpack_device)
    def with_npu(self):
        if has_torch_function_unary(self):
            return dlpack_device(self)
        if self.device.type == "npu":
            return DLDeviceType.kDLExtDev, self.device.index
        if self.device.type == "cpu":
            return DLDeviceType.kDLCPU, 0
        return dlpack_device(self)

    return with_npu


def _reduce_storage(storage):
    if storage.device.type != "npu":
        return reduce_storage(storage)
    # The thread that feeds a queue can raise to nobody, and the receiver would wait for ever: so the receiver is told.
    if threading.current_thread().name == "QueueFeederThread":
        return _refuse, (str(storage.device),)
    return _refuse(storage.device)


def _refuse(device):
    raise RuntimeError(
        f"a tensor on {device} cannot be sent to another process, because the memory of a device belongs to one process: "
        "send tensor.cpu(), and call .npu() where it arrives"
    )


# In the order in which torch.load asks; the package for CUDA has 20.
_BEFORE_CUDA = 19


def _explain_cuda(storage, location):
    if location.startswith("cuda") and not torch.cuda.is_available():
        raise RuntimeError(
            f"the file holds tensors of the device {location}, and there is no CUDA here: "
            "write torch.load(..., map_location='npu') to have them on npu, or map_location='cpu'"
        )
