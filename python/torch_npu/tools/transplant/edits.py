"""Edits of source text, placed by nodes of the syntax tree. Text outside an edit is kept byte for byte.

edits = Edits(file)
edits.replace(node, "npu", "torch.cuda -> torch.npu", HIGH)
text, changes = edits.apply(module, text)
"""

from __future__ import annotations

import bisect
import contextlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import libcst as cst
from libcst._nodes.internal import CodegenState

from .changes import DELETE, INSERT, MODIFY, TODO, Change
from .model import Node

_NOTHING: AbstractContextManager[None] = contextlib.nullcontext()


@dataclass
class _Edit:
    node: Node
    where: str
    text: str
    kind: str
    message: str
    confidence: str
    priority: int


class Edits:
    """priority: of two edits that overlap, the one with the greater number is applied; of equal ones, the longer."""

    def __init__(self, file: str) -> None:
        self.file = file
        self._edits: list[_Edit] = []
        self._touched: set[Node] = set()
        self._tails: dict[Node, Node] = {}

    def replace(self, node: Node, text: str, message: str, confidence: str, priority: int = 0) -> None:
        self._add(_Edit(node, "inner", text, MODIFY, message, confidence, priority))

    def remove(self, node: Node, message: str, confidence: str, priority: int = 0) -> None:
        """Removes a node with its separator, such as an argument with its comma."""
        self._add(_Edit(node, "outer", "", DELETE, message, confidence, priority))

    def remove_last(self, node: Node, previous: Node, message: str, confidence: str, priority: int = 0) -> None:
        """Removes the last argument of several: from the end of the previous one's value."""
        self._tails[node] = previous
        self._touched.add(previous)
        self._add(_Edit(node, "tail", "", DELETE, message, confidence, priority))

    def before(self, node: Node, text: str, message: str, confidence: str) -> None:
        """Inserts lines before a statement, with its indentation."""
        self._add(_Edit(node, "before", text, INSERT, message, confidence, 0))

    def after(self, node: Node, text: str, message: str, confidence: str) -> None:
        """Inserts lines after the last line of a statement, with its indentation."""
        self._add(_Edit(node, "after", text, INSERT, message, confidence, 0))

    def insert(self, node: Node, where: str, text: str, message: str, confidence: str) -> None:
        """Inserts text at the start, outer_start or end of a node, or before its last character (before_end).

        An edit with an empty message is not reported.
        """
        self._add(_Edit(node, where, text, MODIFY, message, confidence, 0))

    def todo(self, node: Node, message: str, confidence: str = "low") -> None:
        self._add(_Edit(node, "none", "", TODO, message, confidence, 0))

    def note(self, node: Node) -> None:
        """Asks for the position of a node."""
        self._touched.add(node)

    def __len__(self) -> int:
        return sum(edit.kind != TODO for edit in self._edits)

    def has(self, node: Node) -> bool:
        return node in self._touched

    @property
    def any(self) -> bool:
        return bool(self._edits)

    def _add(self, edit: _Edit) -> None:
        self._touched.add(edit.node)
        self._edits.append(edit)

    def positions(self, module: cst.Module, text: str) -> _Positions | None:
        """The spans of all nodes of the edits in the text, from which form feeds were removed before it was parsed.

        None if the tree does not give the text again.
        """
        state = _Positions(module.default_indent, module.default_newline)
        state.wanted = self._touched
        module._codegen(state)
        if "".join(state.tokens) != text.replace("\f", ""):
            return None
        state.insert([index for index, character in enumerate(text) if character == "\f"] if "\f" in text else [])
        return state

    def apply(self, module: cst.Module, text: str, positions: _Positions) -> tuple[str, list[Change]]:
        spans = [self._span(edit, positions, text) for edit in self._edits]
        chosen = _without_overlaps([each for each in zip(spans, self._edits, strict=True) if each[1].kind != TODO])
        lines = _Lines(text)
        changes = []
        pieces, position = [], 0
        for (start, end, new), edit in chosen:
            pieces += [text[position:start], new]
            position = end
            if edit.message:
                changes.append(_change(self.file, edit, lines, start, end))
        pieces.append(text[position:])
        for (start, end, _), edit in zip(spans, self._edits, strict=True):
            if edit.kind == TODO:
                changes.append(_change(self.file, edit, lines, start, end))
        changes.sort(key=lambda change: (change.start, change.end))
        return "".join(pieces), changes

    def _span(self, edit: _Edit, positions: _Positions, text: str) -> tuple[int, int, str]:
        inner = positions.inner.get(edit.node) or positions.outer[edit.node]
        newline = "\r\n" if "\r\n" in text else "\n"
        if edit.where == "outer":
            return (*positions.outer[edit.node], edit.text)
        if edit.where == "tail":
            previous = self._tails[edit.node]
            return positions.inner[previous][1], positions.outer[edit.node][1], ""
        if edit.where == "outer_start":
            start = positions.outer[edit.node][0]
            return start, start, edit.text
        if edit.where == "start":
            return inner[0], inner[0], edit.text
        if edit.where == "before_end":
            return inner[1] - 1, inner[1] - 1, edit.text
        if edit.where == "end":
            return inner[1], inner[1], edit.text
        if edit.where in ("before", "after"):
            line_start = text.rfind("\n", 0, inner[0]) + 1
            indent = text[line_start : inner[0]]
            indent = indent if not indent.strip() else indent[: len(indent) - len(indent.lstrip())]
            lines = [indent + line if line else "" for line in edit.text.split("\n")]
            if edit.where == "before":
                return line_start, line_start, "".join(line + newline for line in lines)
            end = text.find("\n", max(inner[1] - 1, inner[0]))
            if end < 0:
                return len(text), len(text), "".join(newline + line for line in lines)
            return end + 1, end + 1, "".join(line + newline for line in lines)
        return (*inner, edit.text)


def _change(file: str, edit: _Edit, lines: _Lines, start: int, end: int) -> Change:
    return Change(file, lines.number(start), lines.number(max(start, end - 1)), edit.kind, edit.message, edit.confidence)


def _without_overlaps(edits: list[Any]) -> list[Any]:
    kept: list[Any] = []
    cluster: list[Any] = []
    end = -1
    for each in sorted(edits, key=lambda each: (each[0][0], each[0][1])):
        if cluster and each[0][0] >= end:
            kept += _best(cluster)
            cluster = []
        cluster.append(each)
        end = max(end, each[0][1])
    return kept + _best(cluster)


def _best(cluster: list[Any]) -> list[Any]:
    """Those of some edits that overlap each other which are applied, in the order of the text."""
    if len(cluster) < 2:
        return cluster
    kept: list[Any] = []
    for each in sorted(cluster, key=lambda each: (-each[1].priority, each[0][0] - each[0][1])):
        start, end, _ = each[0]
        if not any(start < other[0][1] and other[0][0] < max(end, start + 1) for other in kept if other[0][0] < other[0][1]):
            kept.append(each)
    return sorted(kept, key=lambda each: (each[0][0], each[0][1]))


class _Lines:
    def __init__(self, text: str) -> None:
        self.starts = [0]
        position = text.find("\n")
        while position >= 0:
            self.starts.append(position + 1)
            position = text.find("\n", position + 1)

    def number(self, offset: int) -> int:
        return bisect.bisect_right(self.starts, offset)


class _Positions(CodegenState):
    """Records the spans of the wanted nodes while LibCST writes the module as text.

    outer: with parentheses and separators. inner: the expression alone.
    """

    def __init__(self, indent: str, newline: str) -> None:
        super().__init__(indent, newline)
        self.wanted: set[Node] = set()
        self.position = 0
        self.outer: dict[Node, tuple[int, int]] = {}
        self.inner: dict[Node, tuple[int, int]] = {}
        self._starts: list[int] = []

    def add_token(self, value: str) -> None:
        self.tokens.append(value)
        self.position += len(value)

    def add_indent_tokens(self) -> None:
        self.tokens.extend(self.indent_tokens)
        for token in self.indent_tokens:
            self.position += len(token)

    def before_codegen(self, node: Node) -> None:
        if node in self.wanted:
            self._starts.append(self.position)

    def after_codegen(self, node: Node) -> None:
        if node in self.wanted:
            self.outer[node] = (self._starts.pop(), self.position)

    def record_syntactic_position(self, node: Node, **_: Any) -> Any:
        return self._record(node) if node in self.wanted else _NOTHING

    @contextlib.contextmanager
    def _record(self, node: Node) -> Iterator[None]:
        start = self.position
        yield
        self.inner[node] = (start, self.position)

    def insert(self, removed: list[int]) -> None:
        """Moves the spans to a text with characters at these offsets, which the parsed text did not have."""
        if not removed:
            return
        marks = [offset - index for index, offset in enumerate(removed)]
        for spans in (self.outer, self.inner):
            for node, (start, end) in spans.items():
                spans[node] = (start + bisect.bisect_right(marks, start), end + bisect.bisect_right(marks, max(start, end - 1)))

    def line(self, node: Node, text: str) -> int:
        start = (self.inner.get(node) or self.outer[node])[0]
        return text.count("\n", 0, start) + 1
