"""Applies the rules of the user (custom_rules). They win over the rules of the tool where both change the same text."""

from __future__ import annotations

import re

import libcst as cst

from .changes import HIGH
from .custom_rules import ArgumentRule, CustomRules, NameRule
from .edits import Edits
from .model import Binding, Model, Node, Place, dotted
from .names import Names

_PRIORITY = 10


class CustomRuleEdits:
    def __init__(self, model: Model, names: Names, edits: Edits, rules: CustomRules) -> None:
        self.model = model
        self.names = names
        self.edits = edits
        self.rules = rules

    def run(self) -> None:
        for rule in self.rules.arguments:
            for place in self.model.calls:
                if self._matches(rule.function, place.node.func, place):
                    self._argument(rule, place.node)
        for name in self.rules.functions:
            self._function(name)
        for name in self.rules.modules:
            self._module(name)

    def _matches(self, wanted: str, function: Node, place: Place) -> bool:
        if "." in wanted:
            return self.names.qualify(function, place.scope) == wanted
        last = function.attr.value if isinstance(function, cst.Attribute) else dotted(function)
        return last == wanted or (self.names.qualify(function, place.scope) or "").rsplit(".", 1)[-1] == wanted

    def _argument(self, rule: ArgumentRule, call: cst.Call) -> None:
        if rule.keyword is not None:
            found = [arg for arg in call.args if arg.keyword is not None and arg.keyword.value == rule.keyword]
        else:
            assert rule.index is not None
            before = call.args[: rule.index + 1]
            found = list(before[rule.index :]) if not any(arg.star for arg in before) else []
        for arg in found:
            code = cst.Module(body=[]).code_for_node(arg.value)
            if code == rule.new or any(re.search(pattern, code) for pattern in rule.kept):
                continue
            message = f"ArgsModifyRule: argument {code!r} of {rule.function} -> {rule.new!r}"
            if rule.new:
                self.edits.replace(arg.value, rule.new, message, HIGH, _PRIORITY)
            else:
                remove_argument(self.edits, call, arg, message, HIGH, _PRIORITY)

    def _function(self, rule: NameRule) -> None:
        message = f"FuncNameModifyRule: {rule.old} -> {rule.new}"
        for place in self.model.attributes:
            called = place.path and isinstance(place.path[-1], (cst.Call, cst.Decorator))
            if called and isinstance(place.node, cst.Attribute) and self._ends(rule, place.node.attr.value):
                if "." in rule.old and self.names.qualify(place.node, place.scope) != rule.old:
                    continue
                if rule.whole:
                    self.edits.replace(place.node, rule.new, message, HIGH, _PRIORITY)
                else:
                    self.edits.replace(place.node.attr, rule.new, message, HIGH, _PRIORITY)
        renamed: set[int] = set()
        for place in self.model.names:
            bindings = place.scope.find(place.node.value)
            if not self._names(rule, place.node.value, bindings):
                continue
            self.edits.replace(place.node, rule.new, message, HIGH, _PRIORITY)
            if id(bindings) not in renamed:
                renamed.add(id(bindings))
                for binding in bindings:
                    self._rename(binding, rule, message)

    def _ends(self, rule: NameRule, last: str) -> bool:
        return rule.old.rsplit(".", 1)[-1] == last

    def _names(self, rule: NameRule, name: str, bindings: list[Binding]) -> bool:
        """Whether a plain name is the function. Local variables and parameters of the same name are not."""
        if not self._ends(rule, name) or not all(binding.kind in ("import", "def") for binding in bindings):
            return False
        if "." in rule.old:
            return any(binding.qualified == rule.old for binding in bindings)
        return not any(binding.kind == "import" and binding.value.asname is not None for binding in bindings)

    def _rename(self, binding: Binding, rule: NameRule, message: str) -> None:
        node = binding.value
        if isinstance(node, (cst.FunctionDef, cst.ImportAlias)) and isinstance(node.name, cst.Name):
            self.edits.replace(node.name, rule.new, message, HIGH, _PRIORITY)

    def _module(self, rule: NameRule) -> None:
        whole = f"{rule.parent}.{rule.old}" if rule.parent else rule.old
        message = f"ModuleNameModifyRule: {whole} -> {rule.new}"
        for place in self.model.attributes:
            node = place.node
            while isinstance(node, cst.Attribute):
                if node.attr.value == rule.old and self.names.qualify(node, place.scope) == whole:
                    self.edits.replace(node.attr, rule.new, message, HIGH, _PRIORITY)
                node = node.value
            if not rule.parent and isinstance(node, cst.Name) and node.value == rule.old and self._is_plain_import(node, place):
                self.edits.replace(node, rule.new, message, HIGH, _PRIORITY)
        for place in self.model.imports:
            self._module_import(place, rule, whole, message)

    def _is_plain_import(self, node: cst.Name, place: Place) -> bool:
        bindings = place.scope.find(node.value)
        return bool(bindings) and all(
            binding.kind == "import" and binding.qualified == node.value and binding.value.asname is None for binding in bindings
        )

    def _module_import(self, place: Place, rule: NameRule, whole: str, message: str) -> None:
        node = place.node
        paths = [alias.name for alias in node.names] if isinstance(node, cst.Import) else [node.module]
        for path in paths:
            while path is not None:
                if dotted(path) == whole:
                    self.edits.replace(path.attr if isinstance(path, cst.Attribute) else path, rule.new, message, HIGH, _PRIORITY)
                path = path.value if isinstance(path, cst.Attribute) else None
        if isinstance(node, cst.ImportFrom) and not isinstance(node.names, cst.ImportStar) and dotted(node.module) == rule.parent:
            for alias in node.names:
                if dotted(alias.name) == rule.old:
                    new = rule.new if alias.asname is not None else f"{rule.new} as {rule.old}"
                    self.edits.replace(alias.name, new, message, HIGH, _PRIORITY)


def remove_argument(edits: Edits, call: cst.Call, arg: cst.Arg, message: str, confidence: str, priority: int = 0) -> None:
    index = list(call.args).index(arg)
    if index == len(call.args) - 1 and index > 0:
        edits.remove_last(arg, call.args[index - 1].value, message, confidence, priority)
    else:
        edits.remove(arg, message, confidence, priority)
