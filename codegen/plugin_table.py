"""Reads and type-checks the plugin table; the head of csrc/aten/ops.yaml explains the rows.

    plugin = read_plugin_table(Path("csrc/aten/ops.yaml"), device)      # list of PluginOp, in the order of the table

`device` is the result of read_device_table. A mistake raises TableError: one sentence with file, line, row, argument and both
types.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

from aten_schemas import aten, aten_function, aten_parameters, aten_type
from device_table import DeviceFunction
from op_calls import BoundCall, Call, bind, parse_call, used_names
from op_types import DTYPES, Parameter, Scope, Type
from table_rows import Row, pick, read_table
from torchgen.model import FunctionSchema, NativeFunction, NativeFunctionsGroup, SchemaKind

DeviceTable = dict[str, DeviceFunction]
DeviceCall = BoundCall[DeviceFunction]

OPTIONAL_KEYS = ("inplace", "scalar", "exact", "fast", "unused", "infer", "foreach", "errors", "overlap")
KEYS_WITH_ROWS = ("scalar", "exact", "unused", "overlap")
# Key -> the words that it may have.
WORDS = {"fast": ("promote", "same", "truth", "floating"), "foreach": ("list", "floating")}
OVERLAPS = ("none", "whole")
EXACT = ("float64", "any")


@dataclass(frozen=True)
class PluginOp:
    """A row of the plugin table."""

    row: Row
    name: str  # add.out, npu::npu_rms_norm
    schema: FunctionSchema
    native: NativeFunction | None  # None for a row of our own namespace
    group: NativeFunctionsGroup | None  # the functional, in-place and out= form of one operator, if ATen groups them
    outputs: tuple[Parameter, ...]  # results of a non-structured row, by the names that the row gives them, in schema order
    call: DeviceCall
    inplace: DeviceCall | None
    scalar: dict[str, DeviceCall]  # name of a tensor argument -> the call if it is a host scalar; its type is then Scalar
    exact: dict[
        str, DeviceCall
    ]  # word of EXACT -> the call for tensors of these dtypes if `call` would round a number to float32
    fast: str | None  # a word of WORDS
    unused: tuple[str, ...]  # names of ATen arguments that the call does not carry
    infer: str | None
    foreach: str | None  # a word of WORDS
    errors: str | None  # the function that an error names if `check_errors` is set and `info` holds a failure
    overlap: dict[str, str]  # name of an ATen argument -> a word of OVERLAPS: how the tensor of an out= call may share its memory

    @property
    def structured(self) -> bool:
        return self.group is not None and self.group.structured


def read_plugin_table(path: Path, device: DeviceTable) -> list[PluginOp]:
    return [read_plugin_row(row, device) for row in read_table(path)]


def read_plugin_row(row: Row, device: DeviceTable) -> PluginOp:
    keys = ("call", *OPTIONAL_KEYS)
    fields: dict[str, Row] = {
        key: field for key, field in zip(keys, pick(row.rows(), row.file, ("call",), OPTIONAL_KEYS), strict=True) if field
    }
    name, schema, native, group = read_schema(row)
    row = Row(row.file, row.line, name, row.value)
    texts = {key: field.text() for key, field in fields.items() if key not in KEYS_WITH_ROWS}
    for key, words in WORDS.items():
        if key in texts and texts[key] not in words:
            row.fail(f"unknown word `{texts[key]}` for `{key}`; known are {', '.join(words)}")
    unused = read_names(fields.get("unused"))
    scope = {parameter.name: parameter.type for parameter in aten_parameters(schema)}
    parsed = parse_call(row, texts["call"])
    outputs = read_outputs(row, schema, parsed, scope)
    scope |= {output.name: output.type for output in outputs}
    call = bind_device(row, parsed, device, scope, unused)
    inplace = None
    if "inplace" in texts:
        if group is None or group.inplace is None:
            row.fail("`inplace` is given, but ATen has no in-place form of this operator")
        inplace_scope = {parameter.name: parameter.type for parameter in aten_parameters(group.inplace.func)}
        inplace = bind_device(row, parse_call(row, texts["inplace"]), device, inplace_scope, unused)
    scalar = read_scalar(row, fields.get("scalar"), schema, device, scope, unused)
    exact = {}
    if field := fields.get("exact"):
        if "fast" in texts or "inplace" in texts:
            row.fail("`exact` is for rows without `fast` and `inplace`")
        exact = read_exact(row, field, call, device, scope, unused)
    overlap = read_overlap(row, fields.get("overlap"), schema, group)
    if "errors" in texts and not {"check_errors", "info"} <= set(scope):
        row.fail("`errors` is for an operator with the argument `check_errors` and the result `info`")
    fast, infer, foreach, errors = (texts.get(key) for key in ("fast", "infer", "foreach", "errors"))
    return PluginOp(
        row, name, schema, native, group, outputs, call, inplace, scalar, exact, fast, unused, infer, foreach, errors, overlap
    )


def read_scalar(
    row: Row, field: Row | None, schema: FunctionSchema, device: DeviceTable, scope: Scope, unused: Collection[str]
) -> dict[str, DeviceCall]:
    tensors = [argument.name for argument in schema.arguments.flat_non_out if str(argument.type) == "Tensor"]
    calls = {}
    for item in field.rows() if field else ():
        if item.key not in tensors:
            row.fail(f"`scalar` names `{item.key}`, which is no tensor argument")
        if len(tensors) == 1:
            row.fail(f"`scalar` names `{item.key}`, but the operator has no other tensor that lies on the device")
        calls[item.key] = bind_device(row, parse_call(row, item.text()), device, scope | {item.key: Type("Scalar")}, unused)
    return calls


def read_exact(
    row: Row, field: Row, call: DeviceCall, device: DeviceTable, scope: Scope, unused: Collection[str]
) -> dict[str, DeviceCall]:
    calls = {}
    for item in field.rows():
        if item.key not in EXACT:
            row.fail(f"`exact` is for {' or '.join(EXACT)}, not for `{item.key}`")
        if all(argument.parameter.type.base != "float" for argument in call.arguments):
            row.fail("`exact` is given, but the call takes no number as a float")
        calls[item.key] = bind_device(row, parse_call(row, item.text()), device, scope, unused)
    return calls


def read_overlap(row: Row, field: Row | None, schema: FunctionSchema, group: NativeFunctionsGroup | None) -> dict[str, str]:
    overlap = {item.key: item.text() for item in field.rows()} if field else {}
    for argument, word in overlap.items():
        if group is None or not group.structured or argument not in (item.name for item in schema.arguments.flat_all):
            row.fail(f"`overlap` names `{argument}`, which is no argument of a structured operator")
        if word not in OVERLAPS:
            row.fail(f"unknown overlap `{word}`; known are {', '.join(OVERLAPS)}")
    return overlap


def read_schema(row: Row) -> tuple[str, FunctionSchema, NativeFunction | None, NativeFunctionsGroup | None]:
    if row.key.startswith("npu::"):
        try:
            schema = FunctionSchema.parse(row.key.removeprefix("npu::"))
        except (AssertionError, RuntimeError, ValueError) as error:
            row.fail(f"the schema cannot be parsed: {' '.join(str(error).split())}")
        return f"npu::{schema.name}", schema, None, None
    native = aten_function(row, row.key)
    return row.key, native.func, native, aten().groups.get(row.key)


def read_names(field: Row | None) -> tuple[str, ...]:
    if field is None:
        return ()
    return tuple(field.names() if isinstance(field.value, list) else re.split(r", *", field.text()))


def read_outputs(row: Row, schema: FunctionSchema, call: Call, scope: Scope) -> tuple[Parameter, ...]:
    """Names that the schema lacks are its results, in order. An out= or in-place schema has its results among its arguments."""
    names = [expression.text for expression in call.arguments if expression.kind == "name"]
    new = [name for name in dict.fromkeys(names) if name not in scope and name not in DTYPES]
    if schema.kind() in (SchemaKind.out, SchemaKind.inplace):
        return ()
    if len(new) != len(schema.returns):
        listed = f": {', '.join(new)}" if new else ""
        row.fail(f"the schema gives {len(schema.returns)} results, but the call has {len(new)} names that it lacks{listed}")
    return tuple(Parameter(replace(aten_type(item), written=True), name) for item, name in zip(schema.returns, new, strict=True))


def bind_device(row: Row, call: Call, device: DeviceTable, scope: Scope, unused: Collection[str]) -> DeviceCall:
    if call.function not in device:
        row.fail(f"the device table has no `{call.function}`")
    function = device[call.function]
    bound = bind(row, call, function, function.parameters, scope)
    used = used_names(call)
    for name in unused:
        if name in used:
            row.fail(f"`{name}` is listed as unused, but `{call.function}` takes it")
        if name not in scope:
            row.fail(f"unused `{name}` is no argument of the schema")
    for name in scope:
        if name not in used and name not in unused:
            row.fail(f"argument `{name}` does not reach `{call.function}`; pass it or add it to `unused`")
    return bound
