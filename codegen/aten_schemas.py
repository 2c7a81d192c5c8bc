"""ATen's schemas, from the torchgen of the installed torch.

    aten().functions["add.out"]                 # torchgen's NativeFunction
    aten_parameters(schema)                     # the arguments of a schema, as Parameters of op_types

They are parsed once per process.
"""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torchgen
from op_types import Parameter, Type
from table_rows import Row
from torchgen.gen import get_grouped_native_functions, parse_native_yaml
from torchgen.model import Argument, BackendIndex, DispatchKey, FunctionSchema, NativeFunction, NativeFunctionsGroup, Return

ATEN_BASES = {"SymInt": "int", "float": "double", "ScalarType": "dtype"}
# dtype of the tables -> c10::ScalarType
SCALAR_TYPES = {
    "float16": "Half", "bfloat16": "BFloat16", "float32": "Float", "float64": "Double", "int8": "Char", "uint8": "Byte",
    "int16": "Short", "int32": "Int", "int64": "Long", "uint16": "UInt16", "uint32": "UInt32", "uint64": "UInt64",
    "complex32": "ComplexHalf", "complex64": "ComplexFloat", "complex128": "ComplexDouble", "bool": "Bool",
    "float8_e4m3fn": "Float8_e4m3fn", "float8_e5m2": "Float8_e5m2", "float8_e8m0fnu": "Float8_e8m0fnu",
}  # fmt: skip


@dataclass(frozen=True)
class Aten:
    functions: dict[str, NativeFunction]  # by names such as "add.out"
    groups: dict[str, NativeFunctionsGroup]  # by the same names, for the functions that are in a group
    cpu: BackendIndex
    composite: BackendIndex  # kernels that only call other operators, below autograd

    def has_cpu_entry(self, name: str) -> bool:
        """Whether at::cpu has this overload."""
        group = self.groups.get(name)
        return self.cpu.has_kernel(group if group is not None and group.structured else self.functions[name])


@cache
def aten() -> Aten:
    folder = Path(torchgen.__file__).parent / "packaged" / "ATen" / "native"
    parsed = parse_native_yaml(str(folder / "native_functions.yaml"), str(folder / "tags.yaml"))
    functions = {str(function.func.name): function for function in parsed.native_functions}
    groups: dict[str, NativeFunctionsGroup] = {}
    for group in get_grouped_native_functions(parsed.native_functions):
        if isinstance(group, NativeFunctionsGroup):
            groups |= {str(function.func.name): group for function in group.functions()}
    indices = parsed.backend_indices
    return Aten(functions, groups, indices[DispatchKey.CPU], indices[DispatchKey.CompositeExplicitAutograd])


def aten_function(row: Row, name: str) -> NativeFunction:
    if name not in aten().functions:
        base = name.split(".")[0]
        near = sorted(key for key in aten().functions if key.split(".")[0] == base)
        row.fail(f"ATen has no overload `{name}`" + (f"; it has {', '.join(near)}" if near else ""))
    return aten().functions[name]


def aten_type(argument: Argument | Return) -> Type:
    """The Type of a torchgen argument or return."""
    match = re.fullmatch(r"(\w+)(\??)(?:\[(\d*)\])?(\??)", str(argument.type))
    if match is None:  # a class of TorchScript, which no row can pass
        return Type(str(argument.type))
    is_list = match[3] is not None
    return Type(
        ATEN_BASES.get(match[1], match[1]),
        written=argument.annotation is not None and argument.annotation.is_write,
        optional=bool(match[4] if is_list else match[2]),
        is_list=is_list,
        optional_elements=is_list and bool(match[2]),
        length=int(match[3]) if match[3] and match[1] == "bool" else None,
    )


def aten_parameters(schema: FunctionSchema) -> tuple[Parameter, ...]:
    return tuple(Parameter(aten_type(argument), argument.name) for argument in schema.arguments.flat_all)
