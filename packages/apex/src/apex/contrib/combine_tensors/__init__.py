"""Tensors that become views of one flat tensor, so that one operator works on all of them.

combined = combine_npu([a, b])
combined.zero_()     # a and b are zero too
"""

from .combine_tensors import combine_npu, get_part_combined_tensor, is_combined_tensor_valid

__all__ = ["combine_npu", "get_part_combined_tensor", "is_combined_tensor_valid"]
