"""Functions of torch."""

import torch

MODULE = torch

# Run in float16.
FP16_FUNCS = [
    "addbmm",
    "addmm",
    "addmv",
    "addr",
    "baddbmm",
    "bmm",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_tbc",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "matmul",
    "mm",
    "mv",
    "prelu",
]

# Run in float32.
FP32_FUNCS = [
    "acos",
    "asin",
    "cosh",
    "cumprod",
    "cumsum",
    "dist",
    "erfinv",
    "exp",
    "expm1",
    "log",
    "log10",
    "log2",
    "norm",
    "pow",
    "prod",
    "reciprocal",
    "renorm",
    "rsqrt",
    "sinh",
    "std",
    "sum",
    "tan",
    "var",
]

# Run in the widest dtype of their arguments.
CASTS = [
    "add",
    "addcdiv",
    "addcmul",
    "atan2",
    "bilinear",
    "cross",
    "div",
    "dot",
    "eq",
    "equal",
    "ge",
    "gt",
    "le",
    "lt",
    "mul",
    "ne",
]

# The same, for a sequence of tensors.
SEQUENCE_CASTS = ["cat", "stack"]
