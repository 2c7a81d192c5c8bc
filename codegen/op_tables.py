"""Reads and type-checks the two operator tables; their heads explain the rows.

    device = read_device_table(Path("softnpu/ops/aclnn.yaml"))                  # name -> DeviceFunction
    plugin = read_plugin_table(Path("csrc/aten/ops.yaml"), device)              # list of PluginOp, in the order of the table

Both speak one language: a call by argument names, `aclnnSort(self, stable, dim, descending, values, indices)`. An argument is a
name, a literal (`3`, `-1.5`, `true`, `none`, `"floor"`, `[1, 1]`), `name or literal` for an optional that the callee cannot take,
a dtype (`int64`), `dtype_of(name)`, or a word of CONSTANTS.
ATen's schemas come from the torchgen of the installed torch. A mistake raises TableError with one sentence that names file, line,
row, parameter and both types.
"""

import re
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import torchgen
from abi_tables import Row, TableError, pick, read_table
from argument_rules import Rules, read_conditions, read_patterns
from torchgen.gen import get_grouped_native_functions, parse_native_yaml
from torchgen.model import BackendIndex, DispatchKey, FunctionSchema, NativeFunction, NativeFunctionsGroup, SchemaKind

__all__ = ["TableError", "read_device_table", "read_plugin_table"]

# ---- what the tables say ----


@dataclass(frozen=True)
class Type:
    """A type of either world. ATen's `float` and `SymInt` are `double` and `int` here, as in C++."""

    base: str  # a word of DEVICE_BASES; from ATen also Generator, MemoryFormat ...
    written: bool = False  # Tensor!
    optional: bool = False  # Tensor?
    is_list: bool = False  # Tensor[]
    optional_elements: bool = False  # Tensor?[]
    length: int | None = None  # 3 of bool[3]

    def __str__(self):
        element = self.base + "!" * self.written + "?" * (self.optional_elements or (self.optional and not self.is_list))
        return element + f"[{self.length or ''}]" * self.is_list + "?" * (self.optional and self.is_list)


@dataclass(frozen=True)
class Parameter:
    type: Type
    name: str


@dataclass(frozen=True)
class Expression:
    """One argument of a call, as written."""

    kind: str  # name, name_or, literal, dtype, dtype_of or constant
    text: str  # the name (of dtype_of: the tensor), the literal, the dtype such as `int64`, or the constant
    default: str = ""  # of name_or: the literal that stands for a missing value


@dataclass(frozen=True)
class Call:
    function: str
    arguments: tuple  # of Expression


@dataclass(frozen=True)
class BoundArgument:
    parameter: Parameter  # what the callee takes
    expression: Expression  # what the row gives
    type: Type  # type of what the row gives; of a literal: the parameter's


@dataclass(frozen=True)
class BoundCall:
    """A call that passed the type check. `function` is a DeviceFunction (plugin table) or NativeFunction (device table)."""

    function: object
    arguments: tuple  # of BoundArgument, one per parameter, in order


@dataclass(frozen=True)
class DeviceFunction:
    """A row of the device table."""

    row: Row
    name: str  # aclnnAdd
    parameters: tuple  # of Parameter
    aten: BoundCall | None  # the ATen kernel: an out=, in-place or functional overload
    kernel: str | None  # else the name of a function in softnpu::ops::kernels
    kernel_arguments: tuple  # of Parameter: what that function takes, by value order
    results: tuple  # of Parameter: where the results of a functional ATen kernel are copied, in order
    engine: str | None
    sync: bool
    dense: bool  # it writes what it writes as if that were dense
    overlaps: bool  # what is written may hold several elements in one place
    judges: bool  # it may refuse the values that its tensors hold
    heavy: bool  # an element costs several times what it costs elsewhere
    dtypes: tuple  # keys of DTYPE_SETS and dtypes: what the first tensor may be; empty for anything
    promotes: bool  # one of the tensors is enough
    shapes: str | None  # a word of SHAPE_RULES
    rules: Rules  # what shapes, types and numbers must satisfy beyond that

    @property
    def outputs(self):
        return tuple(parameter for parameter in self.parameters if parameter.type.written)


@dataclass(frozen=True)
class PluginOp:
    """A row of the plugin table."""

    row: Row
    name: str  # add.out, npu::npu_rms_norm
    schema: FunctionSchema
    native: NativeFunction | None  # None for a row of our own namespace
    group: NativeFunctionsGroup | None  # functional, in-place and out form of one operator, where there are such
    outputs: tuple  # of Parameter: results of a non-structured row, by the names the row gives them, in schema order
    call: BoundCall | None
    inplace: BoundCall | None
    scalar: dict  # name of an ATen argument -> BoundCall to make when it is a host scalar (its type is then Scalar)
    exact: dict  # word of EXACT -> BoundCall to make for tensors of these dtypes when `call` would round a number to float32
    fast: str | None  # a word of FAST_RULES
    unused: tuple  # names of ATen arguments that the call does not carry
    infer: str | None
    foreach: str | None
    hand: str | None  # the file that holds the function instead of a call
    errors: str | None  # who is named when `check_errors` finds a failure in `info`
    overlap: dict  # name of an ATen argument -> a word of OVERLAPS: how the tensor of an out= call may share its memory

    @property
    def structured(self):
        return self.group is not None and self.group.structured


CONSTANTS = {"cube_math_type": Type("int8"), "conv_math_type": Type("int8")}
FAST_RULES = ("promote", "same", "truth", "floating")
SHAPE_RULES = ("broadcast", "broadcast_into", "same")

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

# ---- types ----

DEVICE_BASES = ("Tensor", "Scalar", "int", "int8", "int32", "uint64", "bool", "float", "double", "str", "dtype")
LIST_BASES = ("Tensor", "Scalar", "int", "bool", "float")
WIDENS = {
    **dict.fromkeys(("int", "int8", "int32", "uint64"), ("int", "int8", "int32", "uint64", "Scalar")),
    **dict.fromkeys(("float", "double"), ("float", "double", "Scalar")),
    "bool": ("bool", "Scalar"),
    "Scalar": ("Scalar", "float", "double"),
}
ATEN_BASES = {"SymInt": "int", "float": "double", "ScalarType": "dtype"}


def parse_device_type(text):
    """The Type that `Tensor!?` spells, or None."""
    match = re.fullmatch(r"(\w+)(!?)(\??)(\[\])?(\??)", text)
    if not match or match[1] not in DEVICE_BASES:
        return None
    base, written, inner, is_list, outer = match[1], bool(match[2]), bool(match[3]), bool(match[4]), bool(match[5])
    malformed = (written and base != "Tensor") or (is_list and base not in LIST_BASES) or (outer and not is_list)
    if malformed or (is_list and inner and base != "Tensor"):
        return None
    return Type(base, written, outer if is_list else inner, is_list, is_list and inner)


def aten_type(argument):
    """The Type of a torchgen argument or return."""
    match = re.fullmatch(r"(\w+)(\??)(?:\[(\d*)\])?(\??)", str(argument.type))
    is_list = match[3] is not None
    return Type(
        ATEN_BASES.get(match[1], match[1]),
        written=argument.annotation is not None and argument.annotation.is_write,
        optional=bool(match[4] if is_list else match[2]),
        is_list=is_list,
        optional_elements=is_list and bool(match[2]),
        length=int(match[3]) if match[3] and match[1] == "bool" else None,
    )


def accepts(target, source):
    """Whether a `source` can be passed for a `target`."""
    if target.is_list != source.is_list or (source.optional and not target.optional):
        return False
    unmarked = target.optional and source.optional  # ATen does not mark the running statistics that it updates
    if target.written and not source.written and not unmarked:
        return False
    if source.optional_elements and not target.optional_elements:
        return False
    if target.is_list:
        return target.base == source.base or {target.base, source.base} == {"float", "double"}
    return target.base in WIDENS.get(source.base, (source.base,))


def literal_fits(target, text):
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
    return target.base in ("float", "double", "Scalar") or (re.fullmatch(r"-?\d+", text) and target.base in WIDENS["int"])


def list_items(literal):
    return [item.strip() for item in literal[1:-1].split(",") if item.strip()]


# ---- calls ----

LITERAL = r'true|false|none|-?\d+(?:\.\d+)?(?:e-?\d+)?|-?inf|nan|"[^"]*"'


def parse_expression(row, text):
    if re.fullmatch(LITERAL, text):
        return Expression("literal", text)
    if text.startswith("["):
        if text.endswith("]") and all(re.fullmatch(LITERAL, item) for item in list_items(text)):
            return Expression("literal", text)
        row.fail(f"`{text}` is not a list of literals")
    if match := re.fullmatch(r"dtype_of\((\w+)\)", text):
        return Expression("dtype_of", match[1])
    if text in CONSTANTS:
        return Expression("constant", text)
    if re.fullmatch(r"[A-Za-z_]\w*", text):
        return Expression("name", text)
    if match := re.fullmatch(rf"([A-Za-z_]\w*) or ({LITERAL}|\[\])", text):
        return Expression("name_or", match[1], match[2])
    return row.fail(f"`{text}` is not an argument name, a literal, dtype_of(name) or one of {', '.join(CONSTANTS)}")


def split_arguments(text):
    """The parts of `a, f(b, c), [1, 2]` at commas outside of brackets."""
    parts = re.findall(r'(?:\[[^\]]*\]|\([^)]*\)|"[^"]*"|[^,\[("])+', text)
    return [part.strip() for part in parts]


def parse_call(row, text):
    match = re.fullmatch(r"([\w.:]+)\((.*)\)", text.strip())
    if not match:
        row.fail(f"`{text.strip()}` is not a call such as name(argument, argument)")
    return Call(match[1], tuple(parse_expression(row, part) for part in split_arguments(match[2])))


def bind(row, call, function, parameters, scope):
    """Checks `call` against what the callee takes; `scope` gives the type of each name."""
    if len(call.arguments) != len(parameters):
        missing = ", ".join(parameter.name for parameter in parameters[len(call.arguments) :])
        more = f"; `{missing}` is missing at the end" if missing else ""
        row.fail(f"`{call.function}` takes {len(parameters)} arguments, {len(call.arguments)} are given{more}")
    bound = []
    for expression, parameter in zip(call.arguments, parameters, strict=True):
        given = type_of(row, call, expression, parameter, scope)
        fits = literal_fits(parameter.type, expression.text) if given is None else accepts(parameter.type, given)
        if not fits:
            spelled = f"the literal {expression.text}" if given is None else f"`{expression.text}` of type {given}"
            row.fail(f"parameter `{parameter.name}` of `{call.function}` is {parameter.type}, but it gets {spelled}")
        bound.append(BoundArgument(parameter, expression, given or parameter.type))
    return BoundCall(function, tuple(bound))


def type_of(row, call, expression, parameter, scope):
    """The type of an expression; None where the parameter decides (literals)."""
    if expression.kind == "literal":
        return None
    if expression.kind == "constant":
        return CONSTANTS[expression.text]
    if expression.kind == "name" and expression.text in scope:
        return scope[expression.text]
    if expression.kind == "name_or" and expression.text in scope:
        given = scope[expression.text]
        if not given.optional or not literal_fits(given, expression.default):
            row.fail(
                f"`{expression.text} or {expression.default}` wants an optional of that kind, `{expression.text}` is {given}"
            )
        return replace(given, optional=False)
    if expression.kind == "name" and expression.text in DTYPES:
        return Type("dtype")
    if expression.kind == "dtype_of" and scope.get(expression.text, Type("")).base == "Tensor":
        return Type("dtype")
    if expression.text in scope:
        row.fail(f"dtype_of({expression.text}) wants a tensor, `{expression.text}` is {scope[expression.text]}")
    known = ", ".join(scope) or "none"
    return row.fail(
        f"parameter `{parameter.name}` of `{call.function}` gets `{expression.text}`, which is no argument; known: {known}"
    )


def used_names(call):
    return {expression.text for expression in call.arguments if expression.kind in ("name", "name_or", "dtype_of")}


# ---- ATen ----


@dataclass(frozen=True)
class Aten:
    functions: dict  # "add.out" -> NativeFunction
    groups: dict  # the same names -> NativeFunctionsGroup, where the function is in one
    cpu: BackendIndex
    composite: BackendIndex  # loops over operators, below autograd

    def has_cpu_entry(self, name):
        """Whether at::cpu has this overload."""
        group = self.groups.get(name)
        return self.cpu.has_kernel(group if group is not None and group.structured else self.functions[name])


@cache
def aten():
    folder = Path(torchgen.__file__).parent / "packaged" / "ATen" / "native"
    parsed = parse_native_yaml(str(folder / "native_functions.yaml"), str(folder / "tags.yaml"))
    functions = {str(function.func.name): function for function in parsed.native_functions}
    groups = {}
    for group in get_grouped_native_functions(parsed.native_functions):
        if isinstance(group, NativeFunctionsGroup):
            groups |= {str(function.func.name): group for function in group.functions()}
    indices = parsed.backend_indices
    return Aten(functions, groups, indices[DispatchKey.CPU], indices[DispatchKey.CompositeExplicitAutograd])


def aten_function(row, name):
    if name not in aten().functions:
        base = name.split(".")[0]
        near = sorted(key for key in aten().functions if key.split(".")[0] == base)
        row.fail(f"ATen has no overload `{name}`" + (f"; it has {', '.join(near)}" if near else ""))
    return aten().functions[name]


def aten_parameters(schema):
    return tuple(Parameter(aten_type(argument), argument.name) for argument in schema.arguments.flat_all)


# ---- the device table ----

# Words behind `|` in a row, each with what may follow it.
DTYPE_WORD = "|".join((*DTYPE_SETS, *DTYPES))
DEVICE_FIELDS = {
    "engine": r"\w+",
    "sync": "",
    "dense": "",
    "overlaps": "",
    "judges": "",
    "heavy": "",
    "unused": r"\w+(?:, *\w+)*",
    "dtypes": rf"(?:{DTYPE_WORD})(?: (?:{DTYPE_WORD}))*",
    "promoted": rf"(?:{DTYPE_WORD})(?: (?:{DTYPE_WORD}))*",
    "shapes": ".+",
    "where": ".+",
}


def read_device_table(path):
    functions = {}
    for row in read_table(Path(path)):
        function = read_device_row(row)
        if first := functions.get(function.name):
            function.row.fail(f"it is declared twice, first in line {first.row.line}")
        functions[function.name] = function
    return functions


def read_device_row(row):
    signature = re.fullmatch(r"(aclnn\w+|acl[A-Z]\w+)\((.*)\)", row.key) or row.fail("an aclnn signature is expected")
    row = Row(row.file, row.line, signature[1], row.value)
    parameters = tuple(read_parameter(row, part.strip()) for part in signature[2].split(",") if part.strip())
    scope = {parameter.name: parameter.type for parameter in parameters}
    if len(scope) != len(parameters):
        row.fail("two parameters have one name")
    kernel_text, *fields = (part.strip() for part in row.text().split("|"))
    fields = read_fields(row, fields)
    unused = re.findall(r"\w+", fields.get("unused", ""))
    bound, kernel, kernel_arguments, results, used = None, None, (), (), set(scope)
    if match := re.fullmatch(r"kernel +(\w+)(\(.*\))?", kernel_text):
        kernel, kernel_arguments = match[1], parameters
        if match[2]:
            call = parse_call(row, match[1] + match[2])
            kernel_arguments = tuple(scope_parameter(row, expression, scope) for expression in call.arguments)
            used = used_names(call)
    else:
        call = parse_call(row, kernel_text)
        native = aten_function(row, call.function)
        bound = bind(row, call, native, aten_parameters(native.func), scope)
        used = used_names(call)
        results = read_results(row, native, parameters, used)
        used |= {parameter.name for parameter in results}
    check_used(row, call.function if bound else f"kernel {kernel}", scope, used, unused)
    shapes = fields.get("shapes") if fields.get("shapes") in SHAPE_RULES else None
    return DeviceFunction(
        row, row.key, parameters, bound, kernel, kernel_arguments, results,
        fields.get("engine"), "sync" in fields, "dense" in fields, "overlaps" in fields, "judges" in fields, "heavy" in fields,
        tuple(fields.get("dtypes", fields.get("promoted", "")).split()),
        "promoted" in fields, shapes, read_rules(row, fields, scope),
    )  # fmt: skip


def read_rules(row, fields, scope):
    """The patterns behind `shapes` and the conditions behind `where`."""
    shapes = fields.get("shapes", "")
    patterns = () if not shapes or shapes in SHAPE_RULES else read_patterns(row, shapes, scope)
    rules = Rules(patterns)
    if "where" not in fields:
        return rules
    return Rules(patterns, read_conditions(row, fields["where"], scope, rules.letters, (*DTYPE_SETS, *DTYPES)))


def read_parameter(row, text):
    match = re.fullmatch(r"(\S+) +(\w+)", text) or row.fail(f"`{text}` is not a type and a name")
    parsed = parse_device_type(match[1])
    if not parsed:
        row.fail(f"`{match[1]}` of parameter `{match[2]}` is not a type; known are {', '.join(DEVICE_BASES)} with !, ? and []")
    return Parameter(parsed, match[2])


def read_fields(row, fields):
    found = {}
    for field in fields:
        word, _, rest = field.partition(" ")
        if word not in DEVICE_FIELDS:
            row.fail(f"unknown word `{word}` behind the bar; known are {', '.join(DEVICE_FIELDS)}")
        if word in found:
            row.fail(f"`{word}` is there twice")
        if not re.fullmatch(DEVICE_FIELDS[word], rest.strip()):
            row.fail(f"`{field}` is not `{word} {DEVICE_FIELDS[word]}`")
        found[word] = rest.strip()
    return found


def scope_parameter(row, expression, scope):
    if expression.kind != "name" or expression.text not in scope:
        row.fail(f"`{expression.text}` is no parameter; a kernel takes parameters only")
    return Parameter(scope[expression.text], expression.text)


def read_results(row, native, parameters, used):
    """Where a functional kernel's results go: the written parameters that the call does not name."""
    if native.func.kind() in (SchemaKind.out, SchemaKind.inplace):
        return ()
    targets = tuple(parameter for parameter in parameters if parameter.type.written and parameter.name not in used)
    returns = [aten_type(item) for item in native.func.returns]
    if len(targets) != len(returns):
        row.fail(f"`{native.func.name}` gives {len(returns)} results, but {len(targets)} written parameters wait for one")
    for target, given in zip(targets, returns, strict=True):
        if not accepts(replace(target.type, optional=True), replace(given, written=True)):
            row.fail(f"parameter `{target.name}` is {target.type}, but `{native.func.name}` gives {given}")
    return targets


def check_used(row, what, scope, used, unused):
    for name in unused:
        if name not in scope:
            row.fail(f"unused `{name}` is no parameter")
        if name in used:
            row.fail(f"`{name}` is called unused, but `{what}` gets it")
    for name in scope:
        if name not in used and name not in unused and name != "cubeMathType":
            row.fail(f"parameter `{name}` does not reach `{what}`; pass it or add `unused {name}`")


# ---- the plugin table ----

PLUGIN_KEYS = ("call", "inplace", "scalar", "exact", "fast", "unused", "infer", "foreach", "hand", "errors", "overlap")
KEYS_WITH_ROWS = ("scalar", "exact", "unused", "overlap")
OVERLAPS = ("none", "whole")
EXACT = ("float64", "any")


def read_plugin_table(path, device):
    return [read_plugin_row(row, device) for row in read_table(Path(path))]


def read_plugin_row(row, device):
    fields = dict(zip(PLUGIN_KEYS, pick(row.rows(), row.file, (), PLUGIN_KEYS), strict=True))
    name, schema, native, group = read_schema(row)
    row = Row(row.file, row.line, name, row.value)
    texts = {key: field.text() for key, field in fields.items() if field and key not in KEYS_WITH_ROWS}
    if ("call" in texts) == ("hand" in texts):
        row.fail("either `call` or `hand` is expected")
    if texts.get("fast", "promote") not in FAST_RULES:
        row.fail(f"unknown rule `{texts['fast']}`; known are {', '.join(FAST_RULES)}")
    unused = read_names(fields["unused"])
    outputs, call, inplace, scalar, exact = (), None, None, {}, {}
    if "call" in texts:
        scope = {parameter.name: parameter.type for parameter in aten_parameters(schema)}
        parsed = parse_call(row, texts["call"])
        outputs = read_outputs(row, schema, parsed, scope)
        scope |= {output.name: output.type for output in outputs}
        call = bind_device(row, parsed, device, scope, unused)
        for field in fields["scalar"].rows() if fields["scalar"] else ():
            if scope.get(field.key, Type("")).base != "Tensor":
                row.fail(f"`scalar` names `{field.key}`, which is no tensor argument")
            narrowed = scope | {field.key: Type("Scalar")}
            scalar[field.key] = bind_device(row, parse_call(row, field.text()), device, narrowed, unused)
        for field in fields["exact"].rows() if fields["exact"] else ():
            if field.key not in EXACT or "fast" in texts or "inplace" in texts:
                row.fail(f"`exact` is for {' or '.join(EXACT)}, and for rows without `fast` and `inplace`")
            if all(argument.parameter.type.base != "float" for argument in call.arguments):
                row.fail("`exact` is given, but the call takes no number as a float")
            exact[field.key] = bind_device(row, parse_call(row, field.text()), device, scope, unused)
    if "inplace" in texts:
        if group is None or group.inplace is None:
            row.fail("`inplace` is given, but ATen has no in-place form of this operator")
        scope = {parameter.name: parameter.type for parameter in aten_parameters(group.inplace.func)}
        inplace = bind_device(row, parse_call(row, texts["inplace"]), device, scope, unused)
    overlap = {field.key: field.text() for field in fields["overlap"].rows()} if fields["overlap"] else {}
    for argument, word in overlap.items():
        if group is None or not group.structured or argument not in (item.name for item in schema.arguments.flat_all):
            row.fail(f"`overlap` names `{argument}`, which is no argument of a structured operator")
        if word not in OVERLAPS:
            row.fail(f"unknown overlap `{word}`; known are {', '.join(OVERLAPS)}")
    plain = (texts.get(key) for key in ("infer", "foreach", "hand", "errors"))
    calls = (call, inplace, scalar, exact)
    return PluginOp(row, name, schema, native, group, outputs, *calls, texts.get("fast"), unused, *plain, overlap)


def read_schema(row):
    if row.key.startswith("npu::"):
        try:
            schema = FunctionSchema.parse(row.key.removeprefix("npu::"))
        except (AssertionError, RuntimeError, ValueError) as error:
            row.fail(f"the schema cannot be parsed: {error}")
        return f"npu::{schema.name}", schema, None, None
    native = aten_function(row, row.key)
    return row.key, native.func, native, aten().groups.get(row.key)


def read_names(field):
    if field is None:
        return ()
    names = field.value if isinstance(field.value, list) else re.split(r", *", field.text())
    return tuple(names)


def read_outputs(row, schema, call, scope):
    """Names that the schema lacks are its results, in order. An out= or in-place schema has its results among its arguments."""
    names = [expression.text for expression in call.arguments if expression.kind == "name"]
    new = [name for name in dict.fromkeys(names) if name not in scope and name not in DTYPES]
    if schema.kind() in (SchemaKind.out, SchemaKind.inplace):
        return ()
    if len(new) != len(schema.returns):
        listed = f": {', '.join(new)}" if new else ""
        row.fail(f"the schema gives {len(schema.returns)} results, but the call has {len(new)} names that it lacks{listed}")
    return tuple(Parameter(replace(aten_type(item), written=True), name) for item, name in zip(schema.returns, new, strict=True))


def bind_device(row, call, device, scope, unused):
    if call.function not in device:
        row.fail(f"the device table has no `{call.function}`")
    function = device[call.function]
    bound = bind(row, call, function, function.parameters, scope)
    used = used_names(call)
    for name in unused:
        if name in used:
            row.fail(f"`{name}` is called unused, but `{call.function}` gets it")
        if name not in scope:
            row.fail(f"unused `{name}` is no argument of the schema")
    for name in scope:
        if name not in used and name not in unused:
            row.fail(f"argument `{name}` does not reach `{call.function}`; pass it or add it to `unused`")
    return bound
