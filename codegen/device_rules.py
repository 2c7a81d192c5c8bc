"""C++ constants of the argument rules: the arrays that softnpu/ops/checks/rules.h reads in phase one."""

from collections.abc import Sequence

from argument_rules import Item, Step
from device_table import DeviceFunction
from device_types import positions
from op_types import DTYPE_SETS

ACL_DTYPES = {
    "float16": "ACL_FLOAT16", "bfloat16": "ACL_BF16", "float32": "ACL_FLOAT", "float64": "ACL_DOUBLE", "int8": "ACL_INT8",
    "uint8": "ACL_UINT8", "int16": "ACL_INT16", "int32": "ACL_INT32", "int64": "ACL_INT64", "uint16": "ACL_UINT16",
    "uint32": "ACL_UINT32", "uint64": "ACL_UINT64", "complex32": "ACL_COMPLEX32", "complex64": "ACL_COMPLEX64",
    "complex128": "ACL_COMPLEX128", "bool": "ACL_BOOL",
    "float8_e4m3fn": "ACL_FLOAT8_E4M3FN", "float8_e5m2": "ACL_FLOAT8_E5M2", "float8_e8m0fnu": "ACL_FLOAT8_E8M0",
}  # fmt: skip


def dtype_bits(words: Sequence[str]) -> str:
    if not words:
        return "0"
    names = dict.fromkeys(name for word in words for name in DTYPE_SETS.get(word, (word,)))
    return " | ".join(f"uint64_t(1) << {ACL_DTYPES[name]}" for name in names)


def argument_text(function: DeviceFunction, name: str) -> str:
    numbers, _ = positions(function)
    index = [parameter.name for parameter in function.parameters].index(name)
    return f"{{{index}, {numbers[name]}}}"


def step_text(function: DeviceFunction, step: Step) -> str:
    value = str(step.value)
    if step.code == "kLetter":
        value = str(function.rules.letters.index(value))
    elif step.code == "kDtypeIn":
        value = f"int64_t({dtype_bits(value.split())})"
    arguments = ", ".join(argument_text(function, name) for name in step.names)
    return f"{{RuleStep::{step.code}, {value}, {len(step.names)}, {{{arguments}}}}}"


def item_text(function: DeviceFunction, item: Item) -> str:
    letter = function.rules.letters.index(item.letter) if item.letter else "kNoLetter"
    return f"{{PatternItem::{item.kind}, {letter}, {item.value}}}"


def array_lines(type_name: str, name: str, items: Sequence[str]) -> list[str]:
    return [f"constexpr {type_name} {name}[] = {{\n    " + ",\n    ".join(items) + "};"] if items else []


def rule_lines(function: DeviceFunction) -> list[str]:
    """The constant rules_NAME and the arrays that it points to."""
    name, rules = function.name, function.rules
    lines: list[str] = []
    patterns: list[str] = []
    conditions: list[str] = []
    for number, pattern in enumerate(rules.patterns):
        items = [item_text(function, item) for item in pattern.items]
        lines += array_lines("PatternItem", f"items_{name}_{number}", items)
        target = f"items_{name}_{number}" if items else "{}"
        may_be_empty = str(pattern.may_be_empty).lower()
        patterns.append(f'{{{argument_text(function, pattern.name)}, "{pattern.text}", {target}, {may_be_empty}}}')
    for number, condition in enumerate(rules.conditions):
        lines += array_lines("RuleStep", f"steps_{name}_{number}", [step_text(function, step) for step in condition.steps])
        conditions.append(f'{{"{condition.text}", steps_{name}_{number}}}')
    lines += array_lines("Pattern", f"patterns_{name}", patterns)
    lines += array_lines("const char*", f"letters_{name}", [f'"{letter}"' for letter in rules.letters])
    lines += array_lines("Condition", f"conditions_{name}", conditions)
    parts: dict[str, Sequence[str]] = {"patterns": patterns, "letters": rules.letters, "conditions": conditions}
    fields = [f".{part} = " + (f"{part}_{name}" if content else "{}") for part, content in parts.items()]
    fields.append(f".uses_scalars = {str(uses_scalars(function)).lower()}")
    return [*lines, f"constexpr Rules rules_{name} = {{" + ", ".join(fields) + "};"]


def uses_scalars(function: DeviceFunction) -> bool:
    scalars = {parameter.name for parameter in function.parameters if parameter.type.base == "Scalar"}
    return any(scalars & set(step.names) for condition in function.rules.conditions for step in condition.steps)
