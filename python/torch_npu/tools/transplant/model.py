"""Scopes, bindings and the interesting nodes of one Python file.

    model = build(libcst.parse_module(text))

One walk over the syntax tree records what the rules look at. Whitespace, comments and punctuation are not visited.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import libcst as cst

from .words import words

Node = cst.CSTNode
Path = tuple[Node, ...]
"""The ancestors of a node, outermost first."""

_PUNCTUATION = words(
    "comma semicolon colon dot equal lpar rpar lbracket rbracket lbrace rbrace leading_lines lines_after_decorators "
    "header footer trailing_whitespace newline indent asynchronous star operator empty_lines keyword"
)
_fields: dict[type, tuple[str, ...]] = {}


def children(node: Node) -> Iterator[Node]:
    fields = _fields.get(type(node))
    if fields is None:
        names = type(node).__dataclass_fields__
        fields = tuple(name for name in names if name not in _PUNCTUATION and not name.startswith("whitespace"))
        _fields[type(node)] = fields
    for name in fields:
        value = getattr(node, name)
        if isinstance(value, Node):
            yield value
        elif isinstance(value, (tuple, list)):
            for each in value:
                if isinstance(each, Node):
                    yield each


@dataclass(eq=False)
class Binding:
    """How a name gets a value in a scope.

    kind: import, assign, element (of the value, by a loop or by unpacking), parameter, def, class or other.
    """

    kind: str
    scope: Scope
    value: Any = None
    qualified: str = ""
    function: cst.FunctionDef | cst.Lambda | None = None


@dataclass(eq=False)
class Scope:
    kind: str
    parent: Scope | None = None
    node: Node | None = None
    bindings: dict[str, list[Binding]] = field(default_factory=lambda: defaultdict(list))
    outer: dict[str, str] = field(default_factory=dict)
    """Names that are declared global or nonlocal."""

    def find(self, name: str) -> list[Binding]:
        """The bindings of a name, by Python's rules: class bodies are not visible from functions inside them."""
        scope: Scope | None = self
        inside = False
        while scope is not None:
            declared = scope.outer.get(name)
            if declared == "global":
                return scope.module().bindings.get(name, [])
            if declared is None and name in scope.bindings and not (inside and scope.kind == "class"):
                return scope.bindings[name]
            inside = True
            scope = scope.parent
        return []

    def module(self) -> Scope:
        scope = self
        while scope.parent is not None:
            scope = scope.parent
        return scope

    def enclosing(self, kind: str) -> Scope | None:
        scope: Scope | None = self
        while scope is not None and scope.kind != kind:
            scope = scope.parent
        return scope


@dataclass
class Place:
    """A node with its scope and its ancestors."""

    node: Any
    scope: Scope
    path: Path


@dataclass
class Model:
    module: cst.Module
    scope: Scope
    imports: list[Place] = field(default_factory=list)
    attributes: list[Place] = field(default_factory=list)
    """Outermost attribute chains, such as the whole of a.b.c."""
    names: list[Place] = field(default_factory=list)
    """Names that are read and are not the root of an attribute chain."""
    strings: list[Place] = field(default_factory=list)
    calls: list[Place] = field(default_factory=list)
    functions: dict[str, list[Place]] = field(default_factory=lambda: defaultdict(list))
    classes: list[Place] = field(default_factory=list)
    returns: dict[Node, list[Place]] = field(default_factory=lambda: defaultdict(list))
    attribute_values: dict[str, list[Place]] = field(default_factory=lambda: defaultdict(list))
    """Attribute name -> the values assigned to it."""
    item_values: dict[str, list[Place]] = field(default_factory=lambda: defaultdict(list))
    """String key -> the values assigned to x["key"], or given in a dict display."""
    star_imports: list[str] = field(default_factory=list)
    loops: list[Place] = field(default_factory=list)
    assigns: list[Place] = field(default_factory=list)
    withs: list[Place] = field(default_factory=list)
    function_scopes: dict[Node, Scope] = field(default_factory=dict)


def dotted(node: Node | None) -> str:
    """The text of a chain of names, or an empty string for any other expression."""
    parts = []
    while isinstance(node, cst.Attribute):
        parts.append(node.attr.value)
        node = node.value
    if not isinstance(node, cst.Name):
        return ""
    return ".".join([node.value, *reversed(parts)])


def string_value(node: Node | None) -> str | None:
    """The value of a plain string literal."""
    if isinstance(node, cst.SimpleString) and "b" not in node.prefix.lower():
        return node.raw_value
    return None


def build(module: cst.Module, words: Callable[[str], bool]) -> Model:
    """words(text): whether a string literal is interesting."""
    scope = Scope("module", node=module)
    builder = _Builder(Model(module, scope), words)
    for statement in module.body:
        builder.visit(statement, scope)
    return builder.model


class _Builder:
    def __init__(self, model: Model, words: Callable[[str], bool]) -> None:
        self.model = model
        self.words = words
        self.stack: list[Node] = []
        self.handlers: dict[type, Callable[[Any, Scope], None]] = {
            cst.Name: self.name,
            cst.Attribute: self.attribute,
            cst.SimpleString: self.string,
            cst.FormattedString: self.formatted,
            cst.Call: self.call,
            cst.Import: self.import_,
            cst.ImportFrom: self.import_from,
            cst.FunctionDef: self.function,
            cst.Lambda: self.lambda_,
            cst.ClassDef: self.class_,
            cst.Assign: self.assign,
            cst.AnnAssign: self.annotated,
            cst.AugAssign: self.augmented,
            cst.NamedExpr: self.walrus,
            cst.For: self.for_,
            cst.CompFor: self.comp_for,
            cst.ListComp: self.comprehension,
            cst.SetComp: self.comprehension,
            cst.DictComp: self.comprehension,
            cst.GeneratorExp: self.comprehension,
            cst.With: self.with_,
            cst.ExceptHandler: self.except_,
            cst.Global: lambda node, scope: self.declare(node, scope, "global"),
            cst.Nonlocal: lambda node, scope: self.declare(node, scope, "nonlocal"),
            cst.Return: self.return_,
            cst.DictElement: self.dict_element,
            cst.MatchAs: self.capture,
            cst.MatchStar: self.capture,
        }

    def visit(self, node: Node, scope: Scope) -> None:
        handler = self.handlers.get(type(node))
        if handler is None:
            self.inside(node, scope)
        else:
            handler(node, scope)

    def inside(self, node: Node, scope: Scope) -> None:
        stack, visit = self.stack, self.visit
        stack.append(node)
        for child in children(node):
            visit(child, scope)
        stack.pop()

    def within(self, parent: Node, node: Node | None, scope: Scope) -> None:
        if node is not None:
            self.stack.append(parent)
            self.visit(node, scope)
            self.stack.pop()

    def place(self, node: Node, scope: Scope) -> Place:
        return Place(node, scope, tuple(self.stack[-24:]))

    # expressions

    def name(self, node: cst.Name, scope: Scope) -> None:
        self.model.names.append(Place(node, scope, tuple(self.stack[-3:])))

    def attribute(self, node: cst.Attribute, scope: Scope) -> None:
        if not (self.stack and isinstance(self.stack[-1], cst.Attribute)):
            self.model.attributes.append(self.place(node, scope))
        self.stack.append(node)
        if not isinstance(node.value, cst.Name):
            self.visit(node.value, scope)
        self.stack.pop()

    def string(self, node: cst.SimpleString, scope: Scope) -> None:
        if self.words(node.value):
            self.model.strings.append(self.place(node, scope))

    def formatted(self, node: cst.FormattedString, scope: Scope) -> None:
        if any(isinstance(part, cst.FormattedStringText) and self.words(part.value) for part in node.parts):
            self.model.strings.append(self.place(node, scope))
        self.inside(node, scope)

    def call(self, node: cst.Call, scope: Scope) -> None:
        self.model.calls.append(self.place(node, scope))
        self.inside(node, scope)

    def walrus(self, node: cst.NamedExpr, scope: Scope) -> None:
        target_scope = scope
        while target_scope.kind == "comprehension" and target_scope.parent is not None:
            target_scope = target_scope.parent
        if isinstance(node.target, cst.Name):
            target_scope.bindings[node.target.value].append(Binding("assign", scope, node.value))
        self.within(node, node.value, scope)

    def dict_element(self, node: cst.DictElement, scope: Scope) -> None:
        key = string_value(node.key)
        if key is not None:
            self.model.item_values[key].append(self.place(node.value, scope))
        self.inside(node, scope)

    def lambda_(self, node: cst.Lambda, scope: Scope) -> None:
        inner = Scope("lambda", scope, node)
        self.model.function_scopes[node] = inner
        self.parameters(node, node.params, scope, inner)
        self.within(node, node.body, inner)

    def comprehension(self, node: Any, scope: Scope) -> None:
        inner = Scope("comprehension", scope, node)
        self.stack.append(node)
        self.comp_for(node.for_in, inner)
        for child in children(node):
            if child is not node.for_in:
                self.visit(child, inner)
        self.stack.pop()

    def comp_for(self, node: cst.CompFor, scope: Scope) -> None:
        self.within(node, node.iter, scope)
        self.bind(node.target, scope, "element", node.iter)
        for condition in node.ifs:
            self.within(node, condition, scope)
        if node.inner_for_in is not None:
            self.comp_for(node.inner_for_in, scope)

    # statements

    def import_(self, node: cst.Import, scope: Scope) -> None:
        self.model.imports.append(self.place(node, scope))
        for alias in node.names:
            whole = dotted(alias.name)
            if alias.asname is not None and isinstance(alias.asname.name, cst.Name):
                scope.bindings[alias.asname.name.value].append(Binding("import", scope, alias, whole))
            else:
                root = whole.split(".")[0]
                scope.bindings[root].append(Binding("import", scope, alias, root))

    def import_from(self, node: cst.ImportFrom, scope: Scope) -> None:
        self.model.imports.append(self.place(node, scope))
        origin = "." * len(node.relative) + dotted(node.module)
        if isinstance(node.names, cst.ImportStar):
            self.model.star_imports.append(origin)
            return
        for alias in node.names:
            imported = dotted(alias.name)
            local = alias.asname.name if alias.asname is not None else alias.name
            if isinstance(local, cst.Name):
                scope.bindings[local.value].append(Binding("import", scope, alias, f"{origin}.{imported}"))

    def function(self, node: cst.FunctionDef, scope: Scope) -> None:
        scope.bindings[node.name.value].append(Binding("def", scope, node))
        self.model.functions[node.name.value].append(self.place(node, scope))
        for decorator in node.decorators:
            self.within(node, decorator, scope)
        self.within(node, node.returns, scope)
        inner = Scope("function", scope, node)
        self.model.function_scopes[node] = inner
        self.parameters(node, node.params, scope, inner)
        self.within(node, node.body, inner)

    def parameters(self, node: Any, params: cst.Parameters, scope: Scope, inner: Scope) -> None:
        self.stack.append(node)
        every = [*params.posonly_params, *params.params, *params.kwonly_params]
        every += [each for each in (params.star_arg, params.star_kwarg) if isinstance(each, cst.Param)]
        for param in every:
            inner.bindings[param.name.value].append(Binding("parameter", scope, param, function=node))
            self.within(param, param.annotation, scope)
            self.within(param, param.default, scope)
        self.stack.pop()

    def class_(self, node: cst.ClassDef, scope: Scope) -> None:
        scope.bindings[node.name.value].append(Binding("class", scope, node))
        self.model.classes.append(self.place(node, scope))
        self.stack.append(node)
        for part in (*node.decorators, *node.bases, *node.keywords):
            self.visit(part, scope)
        self.stack.pop()
        self.within(node, node.body, Scope("class", scope, node))

    def assign(self, node: cst.Assign, scope: Scope) -> None:
        self.model.assigns.append(self.place(node, scope))
        for target in node.targets:
            self.bind(target.target, scope, "assign", node.value)
        self.stack.append(node)
        for target in node.targets:
            self.target(target.target, scope)
        self.visit(node.value, scope)
        self.stack.pop()

    def annotated(self, node: cst.AnnAssign, scope: Scope) -> None:
        self.bind(node.target, scope, "assign", node.value)
        self.stack.append(node)
        self.target(node.target, scope)
        self.visit(node.annotation, scope)
        if node.value is not None:
            self.visit(node.value, scope)
        self.stack.pop()

    def augmented(self, node: cst.AugAssign, scope: Scope) -> None:
        self.bind(node.target, scope, "other", node.value)
        self.stack.append(node)
        self.target(node.target, scope)
        self.visit(node.value, scope)
        self.stack.pop()

    def target(self, node: Node, scope: Scope) -> None:
        """Visits the parts of an assignment's target that are read."""
        if not isinstance(node, cst.Name):
            self.visit(node, scope)

    def bind(self, target: Node, scope: Scope, kind: str, value: Node | None) -> None:
        if isinstance(target, cst.Name):
            scope.bindings[target.value].append(Binding(kind, scope, value))
        elif isinstance(target, (cst.Tuple, cst.List)):
            values: list[Node | None] = [value] * len(target.elements)
            inner = "element"
            if kind == "assign" and isinstance(value, (cst.Tuple, cst.List)) and len(value.elements) == len(target.elements):
                values, inner = [each.value for each in value.elements], "assign"
            for element, each in zip(target.elements, values, strict=True):
                self.bind(element.value, scope, inner, each)
        elif isinstance(target, cst.StarredElement):
            self.bind(target.value, scope, "other", value)
        elif isinstance(target, cst.Attribute) and value is not None and kind != "other":
            self.model.attribute_values[target.attr.value].append(Place(value, scope, (*self.stack[-24:], target)))
        elif isinstance(target, cst.Subscript) and value is not None and kind == "assign":
            key = subscript_key(target)
            if key is not None:
                self.model.item_values[key].append(self.place(value, scope))

    def for_(self, node: cst.For, scope: Scope) -> None:
        self.model.loops.append(self.place(node, scope))
        self.bind(node.target, scope, "element", node.iter)
        self.stack.append(node)
        self.target(node.target, scope)
        for part in (node.iter, node.body, node.orelse):
            if part is not None:
                self.visit(part, scope)
        self.stack.pop()

    def with_(self, node: cst.With, scope: Scope) -> None:
        self.model.withs.append(self.place(node, scope))
        for item in node.items:
            if item.asname is not None:
                self.bind(item.asname.name, scope, "other", item.item)
        self.stack.append(node)
        for item in node.items:
            self.within(item, item.item, scope)
        self.visit(node.body, scope)
        self.stack.pop()

    def except_(self, node: cst.ExceptHandler, scope: Scope) -> None:
        if node.name is not None:
            self.bind(node.name.name, scope, "other", None)
        self.within(node, node.type, scope)
        self.within(node, node.body, scope)

    def declare(self, node: Any, scope: Scope, kind: str) -> None:
        for item in node.names:
            scope.outer[item.name.value] = kind
            if kind == "global":
                # What the function assigns is a binding of the module.
                scope.bindings.pop(item.name.value, None)
                module = scope.module()
                scope.bindings[item.name.value] = module.bindings[item.name.value]

    def capture(self, node: Any, scope: Scope) -> None:
        if node.name is not None:
            scope.bindings[node.name.value].append(Binding("other", scope))
        self.inside(node, scope)

    def return_(self, node: cst.Return, scope: Scope) -> None:
        function = scope.enclosing("function")
        if node.value is not None and function is not None and function.node is not None:
            self.model.returns[function.node].append(self.place(node.value, scope))
        self.inside(node, scope)


def subscript_key(node: cst.Subscript) -> str | None:
    """The key of x["key"]."""
    if len(node.slice) == 1 and isinstance(node.slice[0].slice, cst.Index):
        return string_value(node.slice[0].slice.value)
    return None
