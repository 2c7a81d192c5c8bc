"""Methods of torch.Tensor: its operators, and those of the functions of torch that are methods too."""

import torch

from . import torch_overrides

MODULE = torch.Tensor


def _with_methods(operators: list[str], functions: list[str]) -> list[str]:
    return operators + [name for name in functions if hasattr(MODULE, name)]


FP16_FUNCS = _with_methods(["__matmul__", "__rmatmul__"], torch_overrides.FP16_FUNCS)

# cpu: a float16 tensor arrives on the CPU as float32.
FP32_FUNCS = _with_methods(["__ipow__", "__pow__", "__rpow__", "cpu"], torch_overrides.FP32_FUNCS)

CASTS = _with_methods(
    [
        *("__add__", "__radd__", "__iadd__", "__sub__", "__rsub__", "__isub__", "__mul__", "__rmul__", "__imul__"),
        *("__truediv__", "__rtruediv__", "__itruediv__", "__eq__", "__ne__", "__ge__", "__gt__", "__le__", "__lt__"),
    ],
    torch_overrides.CASTS,
)

SEQUENCE_CASTS: list[str] = []
