"""Tensors on their way between npu and others: DLPack, and checkpoints of other devices.

    torch.from_dlpack(x)                # x on npu: shares the memory
    torch.load("saved_on_cuda.pt")      # refused where there is no CUDA; says to write map_location="npu"

Other processes: see multiprocessing/reductions.py.
"""

import functools

import torch
from torch.overrides import has_torch_function_unary
from torch.utils.dlpack import DLDeviceType


def register():
    torch.Tensor.__dlpack_device__ = _with_npu(torch.Tensor.__dlpack_device__)
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


# In the order in which torch.load asks; the package for CUDA has 20.
_BEFORE_CUDA = 19


def _explain_cuda(storage, location):
    if location.startswith("cuda") and not torch.cuda.is_available():
        raise RuntimeError(
            f"Attempting to deserialize object on a CUDA device, {location}, but there is no CUDA here: "
            "write torch.load(..., map_location='npu') to have them on npu, or map_location='cpu'"
        )
