"""The calls in the operator tables: `aclnnSort(self, stable, dim, descending, values, indices)`, and their type check.

    call = parse_call(row, text)
    bound = bind(row, call, function, parameters, scope)        # TableError names the parameter and both types

An argument is a name, a literal (`3`, `-1.5`, `true`, `none`, `"floor"`, `[1, 1]`), `name or literal` for an optional that the
callee cannot take, a dtype (`int64`), `dtype_of(name)`, or a word of CONSTANTS.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from op_types import DTYPES, Parameter, Scope, Type, accepts, list_items, literal_fits
from table_rows import Row

Callee = TypeVar("Callee")

CONSTANTS = {"cube_math_type": Type("int8"), "conv_math_type": Type("int8")}
LITERAL = r'true|false|none|-?\d+(?:\.\d+)?(?:e-?\d+)?|-?inf|nan|"[^"]*"'


@dataclass(frozen=True)
class Expression:
    """One argument of a call, as written."""

    kind: str  # name, name_or, literal, dtype, dtype_of or constant
    text: str  # the name (of dtype_of: the tensor), the literal, the dtype such as `int64`, or the constant
    default: str = ""  # of name_or: the literal that stands for a missing value


@dataclass(frozen=True)
class Call:
    function: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True)
class BoundArgument:
    parameter: Parameter  # of the callee
    expression: Expression  # of the row
    type: Type  # of the expression; for a literal that of the parameter


@dataclass(frozen=True)
class BoundCall(Generic[Callee]):
    """A call that passed the type check, of a NativeFunction (device table) or a DeviceFunction (plugin table)."""

    function: Callee
    arguments: tuple[BoundArgument, ...]  # one per parameter, in order


def parse_expression(row: Row, text: str) -> Expression:
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


def split_arguments(text: str) -> list[str]:
    """The parts of `a, f(b, c), [1, 2]` at commas outside of brackets."""
    parts = re.findall(r'(?:\[[^\]]*\]|\([^)]*\)|"[^"]*"|[^,\[("])+', text)
    return [part.strip() for part in parts]


def parse_call(row: Row, text: str) -> Call:
    match = re.fullmatch(r"([\w.:]+)\((.*)\)", text.strip())
    if not match:
        row.fail(f"`{text.strip()}` is not a call such as name(argument, argument)")
    return Call(match[1], tuple(parse_expression(row, part) for part in split_arguments(match[2])))


def bind(row: Row, call: Call, function: Callee, parameters: Sequence[Parameter], scope: Scope) -> BoundCall[Callee]:
    """Checks `call` against the parameters of the callee; `scope` gives the type of each name."""
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


def type_of(row: Row, call: Call, expression: Expression, parameter: Parameter, scope: Scope) -> Type | None:
    """The type of an expression; None for a literal, which has the type of the parameter."""
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
                f"`{expression.text} or {expression.default}` needs an optional of that type, but `{expression.text}` is {given}"
            )
        return replace(given, optional=False)
    if expression.kind == "name" and expression.text in DTYPES:
        return Type("dtype")
    if expression.kind == "dtype_of" and scope.get(expression.text, Type("")).base == "Tensor":
        return Type("dtype")
    if expression.text in scope:
        row.fail(f"dtype_of({expression.text}) needs a tensor, but `{expression.text}` is {scope[expression.text]}")
    known = ", ".join(scope) or "none"
    return row.fail(
        f"parameter `{parameter.name}` of `{call.function}` gets `{expression.text}`, which is no argument; known: {known}"
    )


def used_names(call: Call) -> set[str]:
    return {expression.text for expression in call.arguments if expression.kind in ("name", "name_or", "dtype_of")}
