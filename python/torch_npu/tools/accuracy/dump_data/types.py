"""The numbers of data types and formats in dump files, and the conversion of tensors to and from numpy arrays.

numpy has no bfloat16. Its values are read as float32, which is exact. `to_bytes` rounds to nearest even.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

# number -> (name, numpy's type of one element in the file)
DATA_TYPES: dict[int, tuple[str, str]] = {
    1: ("float32", "<f4"),
    2: ("float16", "<f2"),
    3: ("int8", "<i1"),
    4: ("uint8", "<u1"),
    5: ("int16", "<i2"),
    6: ("uint16", "<u2"),
    7: ("int32", "<i4"),
    8: ("int64", "<i8"),
    9: ("uint32", "<u4"),
    10: ("uint64", "<u8"),
    11: ("bool", "|b1"),
    12: ("float64", "<f8"),
    16: ("complex64", "<c8"),
    17: ("complex128", "<c16"),
    27: ("bfloat16", "<u2"),
}
TYPE_NUMBERS = {name: number for number, (name, _) in DATA_TYPES.items()}
_BFLOAT16 = TYPE_NUMBERS["bfloat16"]

FORMATS: dict[int, str] = {
    0: "NCHW",
    1: "NHWC",
    2: "ND",
    3: "NC1HWC0",
    4: "FRACTAL_Z",
    16: "HWCN",
    27: "NDHWC",
    29: "FRACTAL_NZ",
    30: "NCDHW",
    32: "NDC1HWC0",
    33: "FRACTAL_Z_3D",
}
FORMAT_NUMBERS = {name: number for number, name in FORMATS.items()}


def type_name(number: int) -> str:
    return DATA_TYPES[number][0] if number in DATA_TYPES else f"data type {number}"


def format_name(number: int) -> str:
    return FORMATS.get(number, f"format {number}")


def from_bytes(data: bytes | memoryview, data_type: int, shape: Sequence[int]) -> np.ndarray:
    """The values in the given shape, or flat if the shape has another number of elements. ValueError for an unknown type, or if
    the bytes are not a whole number of elements."""
    if data_type not in DATA_TYPES:
        raise ValueError(f"its values have the data type {data_type}, which this tool cannot read")
    kind = np.dtype(DATA_TYPES[data_type][1])
    if len(data) % kind.itemsize:
        raise ValueError(f"{len(data)} bytes are not a multiple of the size of {type_name(data_type)}; the file may be damaged")
    values = np.frombuffer(data, kind)
    if data_type == _BFLOAT16:
        values = (values.astype("<u4") << 16).view("<f4")
    return values.reshape(shape) if math.prod(shape) == values.size else values


def to_bytes(values: np.ndarray, name: str | None = None) -> bytes:
    """The bytes of an array in a dump file. `name` is the data type if numpy lacks it (bfloat16)."""
    if name != "bfloat16":
        return np.ascontiguousarray(values).tobytes()
    bits = np.ascontiguousarray(values, "<f4").view("<u4")
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    rounded = np.where(np.isnan(values), np.uint32(0x7FC0), rounded)
    return rounded.astype("<u2").tobytes()
