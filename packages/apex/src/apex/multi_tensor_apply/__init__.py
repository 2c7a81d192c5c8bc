"""Operators on lists of tensors, one launch for each list.

multi_tensor_applier(amp_C.multi_tensor_scale, overflow_buf, [[a, b], [out_a, out_b]], 0.5)
"""

from . import amp_C
from .multi_tensor_apply import MultiTensorApply

multi_tensor_applier = MultiTensorApply(2048 * 32)

__all__ = ["MultiTensorApply", "amp_C", "multi_tensor_applier"]
