"""Rules of the user, from a JSON file.

    {"rules": {"ArgsModifyRule": [{"func_name": "f", "arg_idx": 0, "arg_new": "x"}],
               "FuncNameModifyRule": [{"old_name": "f", "new_name": "g"}],
               "ModuleNameModifyRule": [{"old_name": "amp", "new_name": "my_amp", "parent_module": "torch.cuda"}]}}

A name with dots is the full name of a function; a name without dots is its last part.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .json_text import offset

LIMIT = 10 << 20
# Rule -> its fields: type, and whether the field is required.
_FIELDS: dict[str, dict[str, tuple[type, bool]]] = {
    "ArgsModifyRule": {
        "func_name": (str, True),
        "arg_new": (str, True),
        "arg_idx": (int, False),
        "arg_keyword": (str, False),
        "white_list": (list, False),
    },
    "FuncNameModifyRule": {"old_name": (str, True), "new_name": (str, True), "replace_module": (bool, False)},
    "ModuleNameModifyRule": {"old_name": (str, True), "new_name": (str, True), "parent_module": (str, False)},
}
_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_WORDS = {str: "a string", int: "a whole number", bool: "true or false", list: "a list of strings"}


class RuleError(Exception):
    pass


@dataclass
class ArgumentRule:
    function: str
    new: str
    index: int | None = None
    keyword: str | None = None
    kept: tuple[str, ...] = ()
    """Arguments that match one of these regular expressions stay."""


@dataclass
class NameRule:
    old: str
    new: str
    parent: str = ""
    whole: bool = False
    """Replaces the module of the function too."""


@dataclass
class CustomRules:
    arguments: list[ArgumentRule] = field(default_factory=list)
    functions: list[NameRule] = field(default_factory=list)
    modules: list[NameRule] = field(default_factory=list)

    @property
    def any(self) -> bool:
        return bool(self.arguments or self.functions or self.modules)

    def words(self) -> list[str]:
        """Every word without which no rule applies to a file."""
        names = [rule.function for rule in self.arguments] + [rule.old for rule in (*self.functions, *self.modules)]
        return [name.rsplit(".", 1)[-1] for name in names]


def load(path: Path) -> CustomRules:
    try:
        if path.stat().st_size > LIMIT:
            raise RuleError(f"the rule file {path} is larger than 10 MB")
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise RuleError(f"the rule file {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise RuleError(f"the rule file {path} is not UTF-8 text") from None
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        raise RuleError(f"{path}, line {error.lineno}: not valid JSON: {error.msg}") from None
    return _Reader(path, text).rules(content)


class _Reader:
    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self.text = text

    def fail(self, reason: str, *keys: str | int) -> RuleError:
        return RuleError(f"{self.path}, line {self.line(keys)}: {reason}")

    def line(self, keys: tuple[str | int, ...]) -> int:
        return self.text.count("\n", 0, offset(self.text, keys)) + 1

    def rules(self, content: Any) -> CustomRules:
        if not isinstance(content, dict) or not isinstance(content.get("rules"), dict):
            raise self.fail('the file must be an object with the key "rules", whose value is an object')
        for key in content:
            if key != "rules":
                raise self.fail(f'the key "{key}" is not known; the only key is "rules"', key)
        result = CustomRules()
        for kind, entries in content["rules"].items():
            if kind not in _FIELDS:
                raise self.fail(f'"{kind}" is no kind of rule; the kinds are {", ".join(_FIELDS)}', "rules", kind)
            if not isinstance(entries, list):
                raise self.fail(f'"{kind}" must be a list of rules', "rules", kind)
            for index, entry in enumerate(entries):
                self.check(kind, entry, index)
                self.add(result, kind, entry, index)
        return result

    def check(self, kind: str, entry: Any, index: int) -> None:
        where = ("rules", kind, index)
        fields = _FIELDS[kind]
        if not isinstance(entry, dict):
            raise self.fail(f"a rule of {kind} must be an object", *where)
        for key, value in entry.items():
            if key not in fields:
                raise self.fail(f'{kind} has no key "{key}"; its keys are {", ".join(fields)}', *where, key)
            wanted = fields[key][0]
            strings = wanted is not list or (isinstance(value, list) and all(isinstance(each, str) for each in value))
            if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)) or not strings:
                raise self.fail(f'"{key}" is {json.dumps(value)}, but must be {_WORDS[wanted]}', *where, key)
        for key, (_, required) in fields.items():
            if required and key not in entry:
                raise self.fail(f'a rule of {kind} lacks the key "{key}"', *where)
        for key in ("func_name", "old_name", "new_name", "parent_module", "arg_keyword"):
            if key in entry and not _NAME.fullmatch(entry[key]):
                raise self.fail(
                    f'"{key}" is {json.dumps(entry[key])}, but must be a name of Python, with or without dots', *where, key
                )

    def add(self, result: CustomRules, kind: str, entry: dict[str, Any], index: int) -> None:
        where = ("rules", kind, index)
        if kind == "ArgsModifyRule":
            if ("arg_idx" in entry) == ("arg_keyword" in entry):
                raise self.fail('a rule of ArgsModifyRule has either "arg_idx" or "arg_keyword"', *where)
            if entry.get("arg_idx", 0) < 0:
                raise self.fail(f'"arg_idx" is {entry["arg_idx"]}, but counts from 0', *where, "arg_idx")
            for pattern in entry.get("white_list", []):
                try:
                    re.compile(pattern)
                except re.error as error:
                    raise self.fail(f'"white_list" has {pattern!r}, which is no regular expression: {error}', *where) from None
            self.expression(entry["arg_new"], *where, "arg_new")
            kept = tuple(entry.get("white_list", []))
            result.arguments.append(
                ArgumentRule(entry["func_name"], entry["arg_new"], entry.get("arg_idx"), entry.get("arg_keyword"), kept)
            )
        elif kind == "FuncNameModifyRule":
            result.functions.append(NameRule(entry["old_name"], entry["new_name"], whole=entry.get("replace_module", False)))
        else:
            result.modules.append(NameRule(entry["old_name"], entry["new_name"], entry.get("parent_module", "")))

    def expression(self, text: str, *where: str | int) -> None:
        if not text:
            return
        try:
            compile(f"f({text})", "rule", "eval")
        except (SyntaxError, ValueError):
            raise self.fail(
                f'"arg_new" is {json.dumps(text)}, but must be an argument of Python, or empty to delete', *where
            ) from None
