"""Reads a YAML table as rows that know their lines.

    for row in read_table(Path("csrc/aten/ops.yaml")):
        row.key, row.text()                     # text() raises TableError if the value is not a single text

Every scalar stays text, as it is written. A mistake raises TableError: one sentence with file, line, row and reason.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import yaml

LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class TableError(Exception):
    """A mistake in a table, as one sentence."""


@dataclass(frozen=True)
class Row:
    """One `key: value` of a table; the value is text, a list of rows, or a list of such values."""

    file: str
    line: int
    key: str
    value: Any

    def fail(self, reason: str) -> NoReturn:
        raise TableError(f"{self.file}, line {self.line}, row `{self.key}`: {reason}.")

    def text(self) -> str:
        return self.value if isinstance(self.value, str) else self.fail("a single value is expected")

    def rows(self) -> "list[Row]":
        return self.value if is_rows(self.value) else self.fail("indented rows are expected")

    def items(self) -> list[Any]:
        return self.value if isinstance(self.value, list) and not is_rows(self.value) else self.fail("a list is expected")

    def names(self) -> list[str]:
        """A list of texts: `[a, b]`."""
        items = self.items()
        return items if all(isinstance(item, str) for item in items) else self.fail("a list of names is expected")


def is_rows(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, Row) for item in value)


def compose(path: Path) -> yaml.Node | None:
    """The parsed file; None if it is empty."""
    try:
        return yaml.compose(path.read_text(encoding="utf-8"), Loader=LOADER)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise TableError(f"{path}, line {line}: not YAML, {error.problem}.") from None
    except (yaml.YAMLError, UnicodeDecodeError):
        raise TableError(f"{path}: not YAML, it holds bytes that are not text.") from None
    except OSError as error:
        raise TableError(f"{path}: cannot be read, {error.strerror}.") from None


def convert_mapping(path: Path, node: yaml.MappingNode) -> list[Row]:
    rows = [Row(str(path), key.start_mark.line + 1, str(key.value), convert(path, value)) for key, value in node.value]
    first: dict[str, Row] = {}
    for row in rows:
        if first.setdefault(row.key, row) is not row:
            row.fail(f"it is declared twice, first in line {first[row.key].line}")
    return rows


def convert(path: Path, node: yaml.Node) -> Any:
    if isinstance(node, yaml.MappingNode):
        return convert_mapping(path, node)
    if isinstance(node, yaml.SequenceNode):
        return [convert(path, item) for item in node.value]
    return node.value


def read_table(path: Path) -> list[Row]:
    """The rows of a file whose content is a mapping; an empty file has none."""
    node = compose(path)
    if node is None:
        return []
    if not isinstance(node, yaml.MappingNode):
        raise TableError(f"{path}, line {node.start_mark.line + 1}: rows such as `key: value` are expected.")
    return convert_mapping(path, node)


def read_sections(path: Path) -> list[list[Row]]:
    """The sections of a file whose content is a list of mappings."""
    node = compose(path)
    if not isinstance(node, yaml.SequenceNode):
        line = node.start_mark.line + 1 if node else 1
        raise TableError(f"{path}, line {line}: a list of sections is expected.")
    for item in node.value:
        if not isinstance(item, yaml.MappingNode):
            raise TableError(f"{path}, line {item.start_mark.line + 1}: a section with rows such as `key: value` is expected.")
    return [convert_mapping(path, item) for item in node.value]


def pick(rows: list[Row], owner: object, required: Sequence[str], optional: Sequence[str] = ()) -> list[Any]:
    """The rows of the `required` and `optional` keys, in that order; None for an optional key that is not given.

    Any other key is a mistake. `owner` is the file."""
    if not is_rows(rows):
        raise TableError(f"{owner}: rows with {', '.join(required)} are expected.")
    found = {row.key: row for row in rows}
    for row in rows:
        if row.key not in (*required, *optional):
            row.fail(f"unknown word; known are {', '.join((*required, *optional))}")
    for key in required:
        if key not in found:
            raise TableError(f"{owner}, line {rows[0].line}, row `{rows[0].key}`: `{key}` is missing beside it.")
    return [found.get(key) for key in (*required, *optional)]
