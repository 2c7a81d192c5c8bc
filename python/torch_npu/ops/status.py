"""The overflow flag of the current device, read and cleared in the order of its current stream. Only devices that saturate set
it: those where torch.npu.utils.is_support_inf_nan() is False.

    status = torch_npu.npu_get_float_status(torch_npu.npu_alloc_float_status(x))
    if status.cpu()[0] != 0:
        torch_npu.npu_clear_float_status(status)
"""

import torch

from .. import _C
from ._define import check, op

_WORDS = 8


@op("npu_alloc_float_status(Tensor self) -> Tensor")
def npu_alloc_float_status(self):
    """Eight zeros in float32, the argument of the other two operators."""
    return torch.zeros(_WORDS, device=self.device)


@op("npu_get_float_status(Tensor self, int mode=0) -> Tensor")
def npu_get_float_status(self, mode=0):
    """The flag as eight numbers; the first is not 0 if it is set. The dtype is int32 on chips with bfloat16. Older chips also
    write it to `self` and return the dtype of `self`."""
    _check("npu_get_float_status", self, mode)
    status = torch.empty(16, dtype=torch.int32, device=self.device)
    with torch.npu.device(self.device):
        _C._npu_read_overflow_status(status.data_ptr())
    status = status[:_WORDS]
    if torch.npu.is_bf16_supported():
        return status
    self.copy_(status)
    return self.clone()


@op("npu_clear_float_status(Tensor self, int mode=0) -> Tensor")
def npu_clear_float_status(self, mode=0):
    """Clears the flag. Returns eight zeros in the form of npu_get_float_status."""
    _check("npu_clear_float_status", self, mode)
    with torch.npu.device(self.device):
        _C._npu_clear_overflow_flag()
    dtype = torch.int32 if torch.npu.is_bf16_supported() else self.dtype
    return torch.zeros(_WORDS, dtype=dtype, device=self.device)


def _check(name, status, mode):
    check(mode in (0, 1), name, f"mode is 0 or 1, not {mode}")
    check(status.device.type == "npu", name, f"the status is on an npu, not on {status.device}")
    check(status.numel() == _WORDS, name, f"the status has {_WORDS} elements, not {status.numel()}")
