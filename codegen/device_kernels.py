"""C++ of the call of a kernel: an ATen overload, or a function of softnpu::ops::kernels."""

import re
from collections.abc import Mapping
from dataclasses import replace

from aten_schemas import SCALAR_TYPES, aten
from c_text import call_text
from device_table import DeviceFunction
from device_types import OBJECTS, positions
from op_calls import BoundArgument
from op_types import Type, list_items
from torchgen.api.types import CppSignatureGroup
from torchgen.model import NativeFunction, SchemaKind, Variant


def read_argument(parameter_type: Type, number: int) -> str:
    """The C++ expression for a parameter inside a kernel call."""
    base, optional = parameter_type.base, "optional_" if parameter_type.optional else ""
    if parameter_type.is_list:
        if parameter_type.optional_elements:
            return f"a.optional_tensors({number})"
        if base in ("Tensor", "Scalar"):
            return f"a.{base.lower()}s({number})"
        return f"a.{optional if base != 'bool' else ''}{'reals' if base == 'float' else 'integers'}({number})"
    if base in OBJECTS:
        return f"a.{optional}{base.lower()}({number})"
    if base == "str":
        return f"a.{optional}text({number})"
    word = {"bool": "flag", "dtype": "dtype", "float": "real", "double": "real"}.get(base, "integer")
    return f"uint64_t(a.integer({number}))" if base == "uint64" else f"a.{word}({number})"


def literal_text(target: Type, text: str) -> str:
    """A literal as the C++ value that a parameter of ATen takes."""
    if text == "none":
        return "std::nullopt"
    if text.startswith("["):
        element = {"int": "int64_t", "double": "double", "bool": "bool", "Scalar": "at::Scalar"}[target.base]
        holder = f"std::array<bool, {target.length}>" if target.length else f"std::vector<{element}>"
        return f"{holder}{{{', '.join(list_items(text))}}}"
    text = re.sub(r"^(-?)inf$", r"\1std::numeric_limits<double>::infinity()", text)
    text = "std::numeric_limits<double>::quiet_NaN()" if text == "nan" else text
    if target.base == "Scalar":
        return f"at::Scalar({text})"
    return f"double({text})" if target.base == "double" and re.fullmatch(r"-?\d+", text) else text


def aten_argument(argument: BoundArgument, numbers: Mapping[str, int]) -> str:
    target, expression = argument.parameter.type, argument.expression
    if expression.kind == "literal":
        return literal_text(target, expression.text)
    if expression.kind == "dtype_of":
        return f"a.tensor({numbers[expression.text]}).scalar_type()"
    if expression.text not in numbers:
        return f"at::ScalarType::{SCALAR_TYPES[expression.text]}"
    given, number = argument.type, numbers[expression.text]
    if expression.kind == "name_or":
        return f"{read_argument(replace(given, optional=True), number)}.value_or({literal_text(target, expression.default)})"
    if target.length:
        return f"a.flags<{target.length}>({number})"
    if target.optional_elements and not given.optional_elements:
        return f"a.optional_tensors({number})"
    if given.base == "Scalar" and target.base == "double":
        return f"a.scalar({number}).toDouble()"
    return read_argument(given, number)


def function_name(native: NativeFunction) -> str:
    """The name of the overload in at:: and at::cpu::, with all arguments in schema order."""
    group = CppSignatureGroup.from_native_function(native, method=False)
    return (group.faithful_signature or group.signature).name()


def kernel_call(function: DeviceFunction, namespace: str) -> list[str]:
    numbers, _ = positions(function)
    if function.kernel:
        arguments = [read_argument(item.type, numbers[item.name]) for item in function.kernel_arguments]
        return [call_text(f"kernels::{function.kernel}", arguments, ";", indent="  ")]
    if function.aten is None:
        function.row.fail("it has neither an ATen kernel nor one of its own")
    native = function.aten.function
    arguments = [aten_argument(argument, numbers) for argument in function.aten.arguments]
    call = f"{namespace}::{function_name(native)}"
    if is_method_only(native):
        call = f"{arguments.pop(0)}.{function_name(native)}"
    if not function.results:
        return [call_text(call, arguments, ";", indent="  ")]
    lines = [call_text(f"const auto result = {call}", arguments, ";", indent="  ")]
    for position, target in enumerate(function.results):
        result = "result" if len(function.results) == 1 else f"std::get<{position}>(result)"
        store = "store_list" if target.type.is_list else "store"
        lines.append(f"  a.{store}({numbers[target.name]}, {result});")
    return lines


def has_meta(function: DeviceFunction) -> bool:
    """Whether ATen can check shapes and types without data: for the out= and in-place forms of structured operators."""
    if not function.aten:
        return False
    name = str(function.aten.function.func.name)
    group = aten().groups.get(name)
    return group is not None and group.structured and function.aten.function.func.kind() in (SchemaKind.out, SchemaKind.inplace)


def is_method_only(native: NativeFunction) -> bool:
    """Whether ATen offers it as a method of its first argument, and in no namespace."""
    return Variant.function not in native.variants and cpu_namespace(native) == "at"


def cpu_namespace(native: NativeFunction) -> str:
    return "at::cpu" if aten().has_cpu_entry(str(native.func.name)) else "at"
