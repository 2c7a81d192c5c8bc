"""Reads and type-checks the device table; the head of softnpu/ops/aclnn.yaml explains the rows.

    device = read_device_table(Path("softnpu/ops/aclnn.yaml"))      # name -> DeviceFunction

A mistake raises TableError: one sentence with file, line, row, parameter and both types.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from argument_rules import Rules, read_conditions, read_patterns
from aten_schemas import aten_function, aten_parameters, aten_type
from op_calls import BoundCall, Expression, bind, parse_call, used_names
from op_types import DEVICE_BASES, DTYPE_SETS, DTYPES, Parameter, Scope, accepts, parse_device_type
from table_rows import Row, read_table
from torchgen.model import NativeFunction, SchemaKind

SHAPE_RULES = ("broadcast", "broadcast_into", "same")
DTYPE_WORDS = (*DTYPE_SETS, *DTYPES)
DTYPE_LIST = rf"(?:{'|'.join(DTYPE_WORDS)})(?: (?:{'|'.join(DTYPE_WORDS)}))*"
# Word behind `|` in a row -> pattern of the text that follows it, and the description of that text in error messages.
DEVICE_WORDS = {
    "engine": (r"\w+", "a name"),
    "sync": ("", "nothing"),
    "dense": ("", "nothing"),
    "overlaps": ("", "nothing"),
    "checks_values": ("", "nothing"),
    "reads": (r"\w+(?:, *\w+)* unless \w+", "a, b unless c"),
    "heavy": ("", "nothing"),
    "widened": (r"(?:native\b ?)?(?:mixed\b ?)?(?:by \w+\??(?:, *\w+\??)*)?", "any of native, mixed, by a, b"),
    "unused": (r"\w+(?:, *\w+)*", "names with commas between them"),
    "dtypes": (DTYPE_LIST, f"one or more of {', '.join(DTYPE_WORDS)}"),
    "promoted": (DTYPE_LIST, f"one or more of {', '.join(DTYPE_WORDS)}"),
    "shapes": (".+", "a rule or patterns"),
    "where": (".+", "conditions"),
}


@dataclass(frozen=True)
class Widening:
    """The float32 copies that the kernel gets of tensors of half precision."""

    native: bool  # not for types that the processor multiplies itself
    mixed: bool  # the kernel takes half precision and float32 together
    parts: tuple[str, ...]  # a large call runs in parts of the first dimension of these tensors
    broadcasts: tuple[str, ...]  # those of them that may have no such dimension


@dataclass(frozen=True)
class DeviceFunction:
    """A row of the device table."""

    row: Row
    name: str  # aclnnAdd
    parameters: tuple[Parameter, ...]
    aten: BoundCall[NativeFunction] | None  # the ATen kernel: an out=, in-place or functional overload
    kernel: str | None  # else the name of a function in softnpu::ops::kernels
    kernel_arguments: tuple[Parameter, ...]  # of that function, in order
    results: tuple[Parameter, ...]  # the results of a functional ATen kernel are copied to these, in order
    engine: str | None
    sync: bool
    dense: bool  # the kernel writes its outputs as if they were dense
    overlaps: bool  # several elements of an output may share an address
    checks_values: bool  # the kernel may refuse values that its tensors hold, such as indices
    written_if: dict[str, str]  # parameter -> the bool parameter without which it is only read
    heavy: bool  # an element costs several times as much as in other kernels
    dtypes: tuple[str, ...]  # words of DTYPE_WORDS that the first tensor may have; empty: any
    promotes: bool  # `dtypes` holds if one of the tensors has such a dtype
    shapes: str | None  # a word of SHAPE_RULES
    rules: Rules  # further conditions on shapes, dtypes and numbers
    widening: Widening | None

    @property
    def outputs(self) -> tuple[Parameter, ...]:
        return tuple(parameter for parameter in self.parameters if parameter.type.written)


def read_device_table(path: Path) -> dict[str, DeviceFunction]:
    functions: dict[str, DeviceFunction] = {}
    for row in read_table(path):
        function = read_device_row(row)
        if first := functions.get(function.name):
            function.row.fail(f"it is declared twice, first in line {first.row.line}")
        functions[function.name] = function
    return functions


def read_device_row(row: Row) -> DeviceFunction:
    signature = re.fullmatch(r"(aclnn\w+|acl[A-Z]\w+)\((.*)\)", row.key) or row.fail("an aclnn signature is expected")
    row = Row(row.file, row.line, signature[1], row.value)
    parameters = tuple(read_parameter(row, part.strip()) for part in signature[2].split(",") if part.strip())
    scope = {parameter.name: parameter.type for parameter in parameters}
    if len(scope) != len(parameters):
        row.fail("two parameters have one name")
    kernel_text, *texts = (part.strip() for part in row.text().split("|"))
    fields = read_fields(row, texts)
    unused = re.findall(r"\w+", fields.get("unused", ""))
    bound: BoundCall[NativeFunction] | None = None
    kernel: str | None = None
    kernel_arguments: tuple[Parameter, ...] = ()
    results: tuple[Parameter, ...] = ()
    used = set(scope)
    if match := re.fullmatch(r"kernel +(\w+)(\(.*\))?", kernel_text):
        kernel, kernel_arguments, callee = match[1], parameters, f"kernel {match[1]}"
        if match[2]:
            call = parse_call(row, match[1] + match[2])
            kernel_arguments = tuple(scope_parameter(row, expression, scope) for expression in call.arguments)
            used = used_names(call)
    else:
        call = parse_call(row, kernel_text)
        callee, native = call.function, aten_function(row, call.function)
        bound = bind(row, call, native, aten_parameters(native.func), scope)
        used = used_names(call)
        results = read_results(row, native, parameters, used)
        used |= {parameter.name for parameter in results}
    check_used(row, callee, scope, used, unused)
    shapes = fields.get("shapes") if fields.get("shapes") in SHAPE_RULES else None
    return DeviceFunction(
        row, row.key, parameters, bound, kernel, kernel_arguments, results,
        fields.get("engine"), "sync" in fields, "dense" in fields, "overlaps" in fields, "checks_values" in fields,
        read_written_if(row, fields, scope), "heavy" in fields, tuple(fields.get("dtypes", fields.get("promoted", "")).split()),
        "promoted" in fields, shapes, read_rules(row, fields, scope), read_widening(row, fields, scope),
    )  # fmt: skip


def read_rules(row: Row, fields: dict[str, str], scope: Scope) -> Rules:
    """The patterns behind `shapes` and the conditions behind `where`."""
    shapes = fields.get("shapes", "")
    patterns = () if not shapes or shapes in SHAPE_RULES else read_patterns(row, shapes, scope)
    rules = Rules(patterns)
    if "where" not in fields:
        return rules
    return Rules(patterns, read_conditions(row, fields["where"], scope, rules.letters, DTYPE_WORDS))


def read_written_if(row: Row, fields: dict[str, str], scope: Scope) -> dict[str, str]:
    """The names behind `reads`."""
    if "reads" not in fields:
        return {}
    names, _, flag = fields["reads"].partition(" unless ")
    found = re.findall(r"\w+", names)
    for name in found:
        if name not in scope or scope[name].base != "Tensor" or scope[name].is_list or not scope[name].written:
            row.fail(f"`{name}` behind `reads` is no written tensor of the function")
    if flag not in scope or str(scope[flag]) != "bool":
        row.fail(f"`{flag}` behind `unless` is no bool of the function")
    return dict.fromkeys(found, flag)


def read_widening(row: Row, fields: dict[str, str], scope: Scope) -> Widening | None:
    """The words behind `widened`."""
    if "widened" not in fields:
        return None
    if "sync" in fields:
        row.fail("`widened` and `sync` exclude each other: a float32 copy of an output has no room for another shape")
    words, _, names = fields["widened"].partition("by ")
    found = re.findall(r"(\w+)(\??)", names)
    for name, _ in found:
        if name not in scope or scope[name].base != "Tensor" or scope[name].is_list:
            row.fail(f"`{name}` behind `widened` is no tensor of the function")
    return Widening(
        "native" in words.split(),
        "mixed" in words.split(),
        tuple(name for name, _ in found),
        tuple(name for name, mark in found if mark),
    )


def read_parameter(row: Row, text: str) -> Parameter:
    match = re.fullmatch(r"(\S+) +(\w+)", text) or row.fail(f"`{text}` is not a type and a name")
    parsed = parse_device_type(match[1])
    if not parsed:
        row.fail(f"`{match[1]}` of parameter `{match[2]}` is not a type; known are {', '.join(DEVICE_BASES)} with !, ? and []")
    return Parameter(parsed, match[2])


def read_fields(row: Row, texts: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for field in texts:
        word, _, rest = field.partition(" ")
        if word not in DEVICE_WORDS:
            row.fail(f"unknown word `{word}` behind the bar; known are {', '.join(DEVICE_WORDS)}")
        if word in found:
            row.fail(f"`{word}` is given twice")
        pattern, expected = DEVICE_WORDS[word]
        if not re.fullmatch(pattern, rest.strip()):
            row.fail(f"`{word}` is followed by `{rest.strip()}`, but {expected} is expected")
        found[word] = rest.strip()
    return found


def scope_parameter(row: Row, expression: Expression, scope: Scope) -> Parameter:
    if expression.kind != "name" or expression.text not in scope:
        row.fail(f"`{expression.text}` is no parameter; a kernel takes parameters only")
    return Parameter(scope[expression.text], expression.text)


def read_results(row: Row, native: NativeFunction, parameters: Sequence[Parameter], used: set[str]) -> tuple[Parameter, ...]:
    """The written parameters that the call does not name; they take the results of a functional kernel."""
    if native.func.kind() in (SchemaKind.out, SchemaKind.inplace):
        return ()
    targets = tuple(parameter for parameter in parameters if parameter.type.written and parameter.name not in used)
    returns = [aten_type(item) for item in native.func.returns]
    if len(targets) != len(returns):
        row.fail(
            f"`{native.func.name}` gives {len(returns)} results, but {len(targets)} written parameters are left to take them"
        )
    for target, given in zip(targets, returns, strict=True):
        if not accepts(replace(target.type, optional=True), replace(given, written=True)):
            row.fail(f"parameter `{target.name}` is {target.type}, but `{native.func.name}` gives {given}")
    return targets


def check_used(row: Row, callee: str, scope: Scope, used: Collection[str], unused: Collection[str]) -> None:
    for name in unused:
        if name not in scope:
            row.fail(f"unused `{name}` is no parameter")
        if name in used:
            row.fail(f"`{name}` is listed as unused, but `{callee}` takes it")
    for name in scope:
        if name not in used and name not in unused and name != "cubeMathType":
            row.fail(f"parameter `{name}` does not reach `{callee}`; pass it or add `unused {name}`")
