"""Names that scripts for older versions of the package use. There the operators were functions of torch, methods of tensors, or
both.

torch.npu_linear(x, weight)                   # torch_npu.npu_linear, and so every other torch_npu.npu_NAME
x.npu_format_cast(29)                         # torch_npu.npu_format_cast(x, 29)
x.storage().npu_format()                      # int(torch_npu.get_npu_format(x))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from . import ops

# Operators of old versions whose names do not begin with npu_.
_OTHER_FUNCTIONS = ("fast_gelu", "get_npu_format", "empty_with_format", "dropout_with_byte_mask", "copy_memory_", "one_")
_METHODS = (
    "fast_gelu get_npu_format copy_memory_ one_ npu_format_cast npu_format_cast_ npu_dtype_cast npu_dtype_cast_ npu_transpose"
    " npu_broadcast npu_reshape npu_slice npu_indexing npu_scatter npu_one_hot npu_stride_add npu_confusion_transpose npu_bmmV2"
    " npu_mish npu_silu npu_silu_ npu_max npu_min npu_roi_align npu_roi_alignbk npu_ps_roi_pooling npu_nms_v4"
    " npu_softmax_cross_entropy_with_logits npu_dropout_with_add_softmax npu_anchor_response_flags npu_yolo_boxes_encode"
    " npu_grid_assign_positive npu_alloc_float_status npu_get_float_status npu_clear_float_status"
)


def register() -> None:
    torch.__getattr__ = _with_operators(torch.__getattr__)
    for name in _METHODS.split():
        setattr(torch.Tensor, name, _method(name))
    for storage in (torch.UntypedStorage, torch.TypedStorage):
        storage.npu_format = _npu_format  # type: ignore[union-attr]


def _with_operators(of_torch: Callable[[str], Any]) -> Callable[[str], Any]:
    """The function that finds the names that the module torch lacks."""

    def find(name: str) -> Any:
        if name in ops.FAMILY_OF and (name.startswith("npu_") or name in _OTHER_FUNCTIONS):
            setattr(torch, name, ops.public(name))  # so that the next use costs nothing
            return torch.__dict__[name]
        return of_torch(name)

    return find


def _method(name: str) -> Callable[..., Any]:
    def method(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        return ops.public(name)(self, *args, **kwargs)

    method.__name__, method.__qualname__, method.__doc__ = name, f"Tensor.{name}", f"torch_npu.{name} of this tensor."
    return method


def _npu_format(self: Any) -> int:
    """The number of the format of a storage on npu. It is ND unless the storage was cast to another format."""
    if self.device.type != "npu":
        raise RuntimeError(f"npu_format: formats are of storages on npu, but this one is on {self.device}; write tensor.npu()")
    untyped = self._untyped_storage if isinstance(self, torch.TypedStorage) else self
    return int(getattr(untyped, "_npu_format", ops.public("Format").ND))
