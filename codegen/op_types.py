"""Types and dtypes of the operator tables.

    parse_device_type("Tensor!?")               # Type("Tensor", written=True, optional=True); None if it is no type
    accepts(Type("double"), Type("float"))      # whether a float can be passed for a double

ATen's types are converted to the same class by aten_schemas.py.
"""

import re
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Type:
    """A type of ATen or of the device. ATen's `float` and `SymInt` are called `double` and `int`, as in C++."""

    base: str  # a word of DEVICE_BASES; from ATen also Generator, MemoryFormat ...
    written: bool = False  # Tensor!
    optional: bool = False  # Tensor?
    is_list: bool = False  # Tensor[]
    optional_elements: bool = False  # Tensor?[]
    length: int | None = None  # 3 of bool[3]

    def __str__(self) -> str:
        element = self.base + "!" * self.written + "?" * (self.optional_elements or (self.optional and not self.is_list))
        return element + f"[{self.length or ''}]" * self.is_list + "?" * (self.optional and self.is_list)


@dataclass(frozen=True)
class Parameter:
    type: Type
    name: str


# Name of a parameter or argument -> its type.
Scope = dict[str, Type]
FLOATING = ("float16", "bfloat16", "float32", "float64")
INTEGRAL = ("int8", "uint8", "int16", "int32", "int64", "uint16", "uint32", "uint64")
COMPLEX = ("complex32", "complex64", "complex128")
FLOAT8 = ("float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu")
DTYPES = (*FLOATING, *INTEGRAL, *COMPLEX, *FLOAT8, "bool")
DTYPE_SETS = {
    "floating": FLOATING,
    "integral": INTEGRAL,
    "discrete": (*INTEGRAL, "bool"),
    "real": (*FLOATING, *INTEGRAL),
    "comparable": (*FLOATING, *INTEGRAL, "bool"),
    "inexact": (*FLOATING, *COMPLEX),
    "number": (*FLOATING, *INTEGRAL, *COMPLEX),
    "float8": FLOAT8,
    "bool": ("bool",),
}

DEVICE_BASES = ("Tensor", "Scalar", "int", "int8", "int32", "uint64", "bool", "float", "double", "str", "dtype")
LIST_BASES = ("Tensor", "Scalar", "int", "bool", "float")
# Type of a value -> types of the parameters that take it.
WIDENS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("int", "int8", "int32", "uint64"), ("int", "int8", "int32", "uint64", "Scalar")),
    **dict.fromkeys(("float", "double"), ("float", "double", "Scalar")),
    "bool": ("bool", "Scalar"),
    "Scalar": ("Scalar", "float", "double"),
}


def parse_device_type(text: str) -> Type | None:
    """The Type that `Tensor!?` spells, or None."""
    match = re.fullmatch(r"(\w+)(!?)(\??)(\[\])?(\??)", text)
    if not match or match[1] not in DEVICE_BASES:
        return None
    base, written, inner, is_list, outer = match[1], bool(match[2]), bool(match[3]), bool(match[4]), bool(match[5])
    malformed = (written and base != "Tensor") or (is_list and base not in LIST_BASES) or (outer and not is_list)
    if malformed or (is_list and inner and base != "Tensor"):
        return None
    return Type(base, written, outer if is_list else inner, is_list, is_list and inner)


def accepts(target: Type, source: Type) -> bool:
    """Whether a `source` can be passed for a `target`."""
    if target.is_list != source.is_list or (source.optional and not target.optional):
        return False
    unmarked = target.optional and source.optional  # ATen's schemas do not mark the running statistics, which they update
    if target.written and not source.written and not unmarked:
        return False
    if source.optional_elements and not target.optional_elements:
        return False
    if target.is_list:
        return target.base == source.base or {target.base, source.base} == {"float", "double"}
    return target.base in WIDENS.get(source.base, (source.base,))


def literal_fits(target: Type, text: str) -> bool:
    if text == "none":
        return target.optional
    if text.startswith("["):
        return target.is_list and all(literal_fits(replace(target, is_list=False), item) for item in list_items(text))
    if target.is_list:
        return False
    if text in ("true", "false"):
        return target.base in ("bool", "Scalar")
    if text.startswith('"'):
        return target.base == "str"
    is_integer = re.fullmatch(r"-?\d+", text) is not None
    return target.base in ("float", "double", "Scalar") or (is_integer and target.base in WIDENS["int"])


def list_items(literal: str) -> list[str]:
    return [item.strip() for item in literal[1:-1].split(",") if item.strip()]
