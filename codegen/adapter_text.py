"""Parts that all adapters share: signature, device check, arguments, calls and the return statement.

An adapter is the C++ function that is registered for one overload of an ATen operator, or of an operator of the namespace npu.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aten_schemas import SCALAR_TYPES
from op_calls import BoundArgument
from op_types import Type, list_items
from plugin_calls import PLAIN
from plugin_table import DeviceCall, PluginOp
from torchgen.api import cpp
from torchgen.api.types import NativeSignature
from torchgen.model import Argument, DeviceCheckType, FunctionSchema, NativeFunction, OperatorName

Names = Mapping[str, str]  # name of the row -> the expression that stands for it in one form of the operator
FLOAT_WORDS = {"inf": "std::numeric_limits<double>::infinity()", "-inf": "-std::numeric_limits<double>::infinity()",
               "nan": "std::numeric_limits<double>::quiet_NaN()"}  # fmt: skip


@dataclass(frozen=True)
class Adapter:
    """One registered overload: the text of its function, and the headers that it needs."""

    schema_name: str
    symbol: str
    text: str
    headers: tuple[str, ...]
    definition: str | None = None  # for an operator of our own: its schema
    meta_symbol: str | None = None
    bypass: str | None = None  # the function that may skip autograd


def symbol_of(name: OperatorName) -> str:
    return re.sub(r"\W", "_", str(name))


def is_tensor_like(argument: Argument) -> bool:
    return argument.type.is_tensor_like()


def tensor_names(schema: FunctionSchema) -> list[str]:
    return [argument.name for argument in schema.arguments.flat_all if is_tensor_like(argument)]


def inputs_of(schema: FunctionSchema) -> list[Argument]:
    return [argument for argument in schema.arguments.flat_all if argument not in schema.arguments.out]


def out_names(schema: FunctionSchema) -> list[str]:
    return [argument.name for argument in schema.arguments.out]


def signature(schema: FunctionSchema, symbol: str) -> str:
    return NativeSignature(schema, prefix="", symint=False).defn(name=symbol)


def prologue(function: NativeFunction | None, schema: FunctionSchema) -> list[str]:
    """The device check, if the schema has one, then the DeviceScope."""
    tensors = tensor_names(schema)
    lines = []
    if function is not None and function.device_check != DeviceCheckType.NoCheck and len(tensors) > 1:
        lines += ["  std::optional<c10::Device> common_device;"]
        method = f"wrapper_NPU_{symbol_of(schema.name)}"
        lines += [
            f'  c10::impl::check_and_update_common_device(common_device, {name}, "{method}", "{name}");' for name in tensors
        ]
    return [*lines, f"  const DeviceScope scope({', '.join(tensors)});"]


def infer_text(op: PluginOp, schema: FunctionSchema) -> str:
    arguments = ", ".join(argument.name for argument in inputs_of(schema))
    return f"infer::{op.infer}({arguments})"


def result_text(schema: FunctionSchema, values: Sequence[str], moved: bool) -> str:
    """The return statement for `values`, one per result."""
    if not schema.returns:
        return "  return;"
    if len(values) == 1:
        return f"  return {values[0]};"
    if moved:
        return f"  return {{{', '.join(values)}}};"
    return f"  return {cpp.returns_type(schema.returns, symint=False).cpp_type()}({', '.join(values)});"


def moved_all(names: Sequence[str]) -> list[str]:
    """A return statement does not move names that `auto [a, b]` bound."""
    return [f"std::move({name})" for name in names]


def literal_text(target: Type, text: str) -> str:
    if text == "none":
        return "nullptr" if target.base == "str" else "std::nullopt"
    if text.startswith("["):
        return "{" + ", ".join(list_items(text)) + "}"
    text = FLOAT_WORDS.get(text, text)
    return f"at::Scalar({text})" if target.base == "Scalar" else text


def argument_text(argument: BoundArgument, names: Names, whole: bool = False) -> str:
    """C++ of one bound argument. With `whole` it is not cast to the type of the parameter."""
    target, text = argument.parameter.type, argument.expression.text
    kind = argument.expression.kind
    if kind == "literal":
        return literal_text(target, text)
    if kind == "constant":
        return f"{text}()"
    if kind == "dtype_of":
        return f"{names.get(text, text)}.scalar_type()"
    if kind == "name" and text not in names and text in SCALAR_TYPES:
        return f"at::ScalarType::{SCALAR_TYPES[text]}"
    text = names.get(text, text)
    given = argument.type
    if kind == "name_or":
        default = "at::IntArrayRef{}" if given.is_list else literal_text(given, argument.expression.default)
        text = f"{text}.value_or({default})"
    if given.base == "Scalar" and target.base in ("float", "double"):
        text, given = f"{text}.toDouble()", Type("double")
    if given.base == "str" and not given.optional:
        return f"std::string({text}).c_str()"
    if not whole and not target.is_list and target.base in PLAIN and target.base != given.base:
        return f"static_cast<{PLAIN[target.base]}>({text})"
    return text


def call_text(call: DeviceCall, names: Names) -> str:
    arguments = ", ".join(argument_text(argument, names) for argument in call.arguments)
    return f"call::{call.function.name}({arguments});"


def slow_call(op: PluginOp, call: DeviceCall, names: Names, given: str | None = None) -> list[str]:
    """The call, behind the branches for host scalars and for numbers that float32 would round.

    The call with a host scalar needs a result of the promoted dtype; the tensor `given` by the caller may have another one."""
    lines, prefix = [], "  "
    tensors = [argument.name for argument in inputs_of(op.schema) if str(argument.type) == "Tensor"]
    for scalar, scalar_call in op.scalar.items():
        partner = next(name for name in tensors if name != scalar)
        text = call_text(scalar_call, {**names, scalar: f"host_scalar({scalar})"})
        fits = f" && {given}.scalar_type() == at::result_type({partner}, {scalar})" if given else ""
        lines += [f"{prefix}if (is_host_scalar({scalar}, {partner}){fits}) {{", f"    {text}"]
        prefix = "  } else "
    for dtype, exact_call in op.exact.items():
        numbers = [argument_text(argument, names, whole=True) for argument in call.arguments
                   if argument.parameter.type.base == "float"]  # fmt: skip
        tests = [f"is_any_double({', '.join(tensors)})"] if dtype == "float64" else []
        tests += [f"rounds_to_float({{{', '.join(numbers)}}})", f'is_offered("{exact_call.function.name}")']
        lines += [f"{prefix}if ({' && '.join(tests)}) {{", f"    {call_text(exact_call, names)}"]
        prefix = "  } else "
    if not lines:
        return [f"  {call_text(call, names)}"]
    return [*lines, "  } else {", f"    {call_text(call, names)}", "  }"]
