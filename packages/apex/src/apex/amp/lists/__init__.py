"""The functions that O1 casts, by owner. Edit a list before amp.initialize to change what O1 does with a function.

from apex.amp.lists import functional_overrides

functional_overrides.FP32_FUNCS.remove("gelu")     # runs in the dtype of its arguments
"""

from . import functional_overrides, tensor_overrides, torch_overrides

__all__ = ["functional_overrides", "tensor_overrides", "torch_overrides"]
