"""The tensor and storage types that torch had before dtypes: torch.npu.FloatTensor, torch.npu.FloatStorage.

torch.npu.FloatTensor([1, 2])                         # or with a size: torch.npu.FloatTensor(2, 3)
isinstance(x, torch.npu.FloatTensor)                  # a float32 tensor on npu
x.type(torch.npu.HalfTensor)
torch.set_default_tensor_type(torch.npu.FloatTensor)  # see torch_npu/_default_tensor_type.py
"""

from __future__ import annotations

from typing import Any, NoReturn

import torch
from torch._utils import classproperty
from torch.storage import _LegacyStorage

_DTYPES = {
    "BFloat16": torch.bfloat16,
    "Bool": torch.bool,
    "Byte": torch.uint8,
    "Char": torch.int8,
    "Double": torch.float64,
    "Float": torch.float32,
    "Half": torch.float16,
    "Int": torch.int32,
    "Long": torch.int64,
    "Short": torch.int16,
}


class _TensorType(type):
    """The metaclass of these types. Calling a type makes a plain torch.Tensor."""

    dtype: torch.dtype
    layout: torch.layout

    def __call__(cls, *args: Any, **kwargs: Any) -> torch.Tensor:
        return torch.empty(0, dtype=cls.dtype, device="npu").new(*args, **kwargs)

    def __instancecheck__(cls, tensor: object) -> bool:
        return (
            isinstance(tensor, torch.Tensor)
            and tensor.device.type == "npu"
            and tensor.dtype == cls.dtype
            and tensor.layout == cls.layout
        )

    def __repr__(cls) -> str:
        return f"<class '{cls.__name__}'>"


def _tensor_type(name: str, dtype: torch.dtype) -> _TensorType:
    members = {"dtype": dtype, "layout": torch.strided, "is_npu": True, "is_cuda": False, "is_sparse": False}
    return _TensorType(f"torch.npu.{name}Tensor", (), members)  # Tensor.type() finds a type by this name


class _Storage(_LegacyStorage):
    @classproperty
    def dtype(self) -> torch.dtype:
        return self._dtype

    @classmethod
    def from_buffer(cls, *args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(f"{cls.__name__}.from_buffer: a buffer is memory of the host; make a CPU storage and move it by npu()")


def _storage(name: str, dtype: torch.dtype) -> type:
    # torch takes the device of a storage from the name of its module.
    return type(f"{name}Storage", (_Storage,), {"__module__": "torch_npu.npu", "_dtype": dtype})


globals().update({f"{name}Tensor": _tensor_type(name, dtype) for name, dtype in _DTYPES.items()})
_DTYPES.update(ComplexFloat=torch.complex64, ComplexDouble=torch.complex128)
globals().update({f"{name}Storage": _storage(name, dtype) for name, dtype in _DTYPES.items()})
