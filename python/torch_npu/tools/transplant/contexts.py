"""Where a string literal stands: what receives it, if the surrounding expression only passes it on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import libcst as cst

from .model import Node, Path, Place, dotted, string_value, subscript_key
from .words import words

PRINTED = words(
    "print debug info warning warn error critical exception log write writelines fail skip skipif skipUnless skipIf "
    "set_description add_scalar add_text echo secho title xlabel ylabel label legend append_text RuntimeError "
    "ValueError"
)
_TEXTS = words("help description epilog usage msg message reason title label doc metavar prog desc prefix postfix")


_TRANSPARENT = (cst.BooleanOperation, cst.Element, cst.List, cst.Tuple, cst.Set, cst.ConcatenatedString, cst.ListComp)


@dataclass
class Context:
    """kind: assign, parameter, keyword, argument, key, value, item, return, compare, text, environment or other."""

    kind: str
    name: str = ""
    """The receiving variable, attribute, parameter, keyword, key or function."""
    call: cst.Call | None = None
    position: int = -1
    other: tuple[Node, ...] = ()
    """What a comparison compares with."""


def context(place: Place) -> Context:
    node: Node = place.node
    path = list(place.path)
    while path:
        parent = path.pop()
        if _passes_on(parent, node):
            node = parent
        elif isinstance(parent, cst.Attribute) and path and isinstance(path[-1], cst.Call) and path[-1].func is parent:
            node = path.pop()  # "cuda:{}".format(0)
            if parent.attr.value not in ("format", "lower", "upper", "strip"):
                return Context("other")
        else:
            return _receiver(parent, node, path)
    return Context("other")


def _passes_on(parent: Node, node: Node) -> bool:
    if isinstance(parent, cst.IfExp):
        return parent.test is not node
    if isinstance(parent, cst.BinaryOperation):
        return parent.left is node
    return isinstance(parent, _TRANSPARENT)


def _receiver(parent: Node, node: Node, path: list[Node]) -> Context:
    if isinstance(parent, cst.Assign):
        return Context("assign", _target(parent.targets[-1].target))
    if isinstance(parent, (cst.AnnAssign, cst.NamedExpr)):
        return Context("assign", _target(parent.target))
    if isinstance(parent, cst.Param):
        return Context("parameter", parent.name.value)
    if isinstance(parent, cst.DictElement):
        if parent.key is node:
            return Context("key")
        return Context("value", string_value(parent.key) or "")
    if isinstance(parent, (cst.ComparisonTarget, cst.Comparison)):
        whole = path[-1] if isinstance(parent, cst.ComparisonTarget) and path else parent
        return Context("compare", other=_operands(whole, node))
    if isinstance(parent, cst.Arg) and path and isinstance(path[-1], cst.Call):
        return _argument(parent, path[-1])
    if isinstance(parent, cst.Return):
        function = next((each for each in reversed(path) if isinstance(each, cst.FunctionDef)), None)
        return Context("return", function.name.value if function is not None else "")
    if isinstance(parent, cst.Index):
        subscript = next((each for each in reversed(path) if isinstance(each, cst.Subscript)), None)
        return Context("environment" if subscript is not None and dotted(subscript.value).endswith("environ") else "item")
    if isinstance(parent, (cst.Expr, cst.Raise, cst.Assert, cst.FormattedStringExpression)):
        return Context("text")
    return Context("other")


def _argument(arg: cst.Arg, call: cst.Call) -> Context:
    function = dotted(call.func) or (call.func.attr.value if isinstance(call.func, cst.Attribute) else "")
    last = function.rsplit(".", 1)[-1]
    if arg.keyword is not None:
        keyword = arg.keyword.value
        if keyword in _TEXTS:
            return Context("text")
        return Context("keyword", keyword, call)
    position = [each for each in call.args if each.keyword is None].index(arg)
    if last in PRINTED or last.endswith(("Error", "Exception", "Warning")):
        return Context("text")
    return Context("argument", last, call, position)


def option_name(call: cst.Call) -> str:
    """The name that the first string of a call gives: add_argument("--device"), cfg.get("device"), getattr(args, "device")."""
    texts = [string_value(arg.value) for arg in call.args if arg.keyword is None]
    long = [text for text in texts if text and text.startswith("--")]
    return (long or [text for text in texts if text] or [""])[0].lstrip("-")


def _target(node: Any) -> str:
    if isinstance(node, cst.Name):
        return node.value
    if isinstance(node, cst.Attribute):
        return node.attr.value
    if isinstance(node, cst.Subscript):
        return subscript_key(node) or dotted(node.value)
    if isinstance(node, (cst.Tuple, cst.List)):
        return " ".join(_target(element.value) for element in node.elements)
    return ""


def _operands(node: Node, part: Node) -> tuple[Node, ...]:
    if not isinstance(node, cst.Comparison):
        return ()
    operands = [node.left, *(target.comparator for target in node.comparisons)]
    return tuple(each for each in operands if each is not part)


def ancestors(path: Path, kind: type) -> list[Any]:
    return [node for node in path if isinstance(node, kind)]
