"""The numbers of data types in operators of the namespace npu.

A torch.dtype for a parameter of the schema type `int` arrives as the number of its ScalarType. torch_npu.hifloat8, torch_npu.int4
and others are the numbers of the device library plus 256; torch_npu.float16 and others are such numbers of types that torch has
too.

    of(1) is of(258) is torch.int8; of(None, torch.int8) is torch.int8; of(torch_npu.int4) is dtypes.INT4
"""

import torch

OFFSET = 256
TOKENS = {
    "float32": OFFSET + 0,
    "float16": OFFSET + 1,
    "int8": OFFSET + 2,
    "int32": OFFSET + 3,
    "uint8": OFFSET + 4,
    "int16": OFFSET + 6,
    "uint16": OFFSET + 7,
    "uint32": OFFSET + 8,
    "int64": OFFSET + 9,
    "uint64": OFFSET + 10,
    "float64": OFFSET + 11,
    "bool": OFFSET + 12,
    "string": OFFSET + 13,
    "complex64": OFFSET + 16,
    "complex128": OFFSET + 17,
    "bfloat16": OFFSET + 27,
    "int4": OFFSET + 29,
    "uint1": OFFSET + 30,
    "complex32": OFFSET + 33,
    "hifloat8": OFFSET + 34,
    "float8_e5m2": OFFSET + 35,
    "float8_e4m3fn": OFFSET + 36,
    "float8_e8m0fnu": OFFSET + 37,
    "float6_e3m2": OFFSET + 38,
    "float6_e2m3": OFFSET + 39,
    "float4_e2m1fn_x2": OFFSET + 40,
    "float4_e1m2fn_x2": OFFSET + 41,
}
INT4 = "int4"
HIFLOAT8 = "hifloat8"
QUANTIZED = {torch.qint8: torch.int8, torch.quint8: torch.uint8, torch.qint32: torch.int32, torch.quint4x2: INT4}

_NAMES = {token: name for name, token in TOKENS.items()}
_SCALAR_TYPES = [
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "float32",
    "float64",
    "complex32",
    "complex64",
    "complex128",
    "bool",
    "qint8",
    "quint8",
    "qint32",
    "bfloat16",
    "quint4x2",
    "quint2x4",
    "bits1x8",
    "bits2x4",
    "bits4x2",
    "bits8",
    "bits16",
    "float8_e5m2",
    "float8_e4m3fn",
    "float8_e5m2fnuz",
    "float8_e4m3fnuz",
    "uint16",
    "uint32",
    "uint64",
]


def of(number, default=None):
    """The torch.dtype of a number, or the token's name if torch has no such type. Quantized types give their integer type."""
    if number is None:
        return default
    if isinstance(number, torch.dtype):
        return QUANTIZED.get(number, number)
    name = _NAMES.get(number) if number >= OFFSET else _SCALAR_TYPES[number] if 0 <= number < len(_SCALAR_TYPES) else None
    if name is None:
        raise ValueError(f"there is no data type {number}; give a torch.dtype, or one of torch_npu.{', '.join(TOKENS)}")
    found = getattr(torch, name, None) if name != INT4 else INT4
    return QUANTIZED.get(found, found) if isinstance(found, torch.dtype) else name
