"""Tensors from and for other devices: DLPack, and checkpoints of CUDA.

    torch.from_dlpack(x)                # x on npu: shares the memory
    torch.load("saved_on_cuda.pt")      # without CUDA: an error that says to use map_location="npu"

multiprocessing/reductions.py sends tensors to other processes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import has_torch_function_unary
from torch.utils.dlpack import DLDeviceType


def register() -> None:
    torch.Tensor.__dlpack_device__ = _with_npu(torch.Tensor.__dlpack_device__)
    torch.serialization.register_package(_BEFORE_CUDA, lambda storage: None, _explain_cuda)


def _with_npu(dlpack_device: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps torch's own, which does not know the name npu and reports all pinned memory as CUDA's."""

    @functools.wraps(dlpack_device)
    def with_npu(self: torch.Tensor) -> Any:
        if has_torch_function_unary(self):
            return dlpack_device(self)
        if self.device.type == "npu":
            return DLDeviceType.kDLExtDev, self.device.index
        if self.device.type == "cpu":
            return DLDeviceType.kDLCPU, 0
        return dlpack_device(self)

    return with_npu


# The priority for torch.load, which asks lower numbers first; the package for CUDA has 20.
_BEFORE_CUDA = 19


def _explain_cuda(storage: Any, location: str) -> None:
    if location.startswith("cuda") and not torch.cuda.is_available():
        raise RuntimeError(
            f"Attempting to deserialize object on a CUDA device, {location}, but there is no CUDA here: "
            "write torch.load(..., map_location='npu') to have them on npu, or map_location='cpu'"
        )
