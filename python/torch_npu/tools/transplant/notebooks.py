"""Jupyter notebooks: the code cells are converted together, as one program."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from .changes import Change, FileResult
from .configs import shell_line

_MARK = "# %% cell {} of the notebook"
_MAGIC = re.compile(r"^\s*(%%|[!%?])|\?\s*$")


def convert(file: str, text: str, convert_code: Callable[[str], FileResult]) -> FileResult:
    result = FileResult(file)
    try:
        notebook = json.loads(text)
        cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
        sources = ["".join(cell["source"]) for cell in cells]
    except (ValueError, KeyError, TypeError):
        result.problem = "it is not a notebook of format 4"
        return result
    magics: list[str] = []
    program, firsts = "", []
    for index, source in enumerate(sources):
        program += _MARK.format(index) + "\n"
        firsts.append(program.count("\n"))
        program += "\n".join(_hide(line, magics) for line in _lines(source)) + "\n"
    converted = convert_code(program)
    result.problem = converted.problem and f"in the code of all cells, {converted.problem}"
    result.uses = converted.uses
    result.changes = [_in_cell(change, firsts) for change in converted.changes]
    shown = [shell_line(file, 0, magic, result.changes) if magic.lstrip().startswith("!") else magic for magic in magics]
    new = converted.text or program
    if new == program and shown == magics:
        return result
    parts = re.split(r"^# %% cell \d+ of the notebook\n", new, flags=re.MULTILINE)
    if len(parts) != len(cells) + 1:
        result.problem = "its cells do not form one program"
        return result
    for cell, source, part in zip(cells, sources, _with_head(parts), strict=True):
        code = re.sub(r"^([ \t]*)pass  # magic (\d+)$", lambda found: shown[int(found[2])], part, flags=re.MULTILINE)
        code = code[:-1] if not source.endswith("\n") else code
        if code != source:
            cell["source"] = code if isinstance(cell["source"], str) else code.splitlines(keepends=True)
    result.text = _dump(notebook, text)
    return result


def _with_head(parts: list[str]) -> list[str]:
    """Lines that were inserted before the mark of the first cell belong to that cell."""
    return [parts[0] + parts[1], *parts[2:]] if len(parts) > 1 else []


def _lines(source: str) -> list[str]:
    lines = source[:-1].split("\n") if source.endswith("\n") else source.split("\n")
    if lines and lines[0].lstrip().startswith("%%"):
        return ["\0" + line for line in lines]  # the whole cell is another language
    return lines


def _hide(line: str, magics: list[str]) -> str:
    if not line.startswith("\0") and not _MAGIC.search(line):
        return line
    line = line.removeprefix("\0")
    magics.append(line)
    return f"{line[: len(line) - len(line.lstrip())] if not line.startswith('%%') else ''}pass  # magic {len(magics) - 1}"


def _in_cell(change: Change, firsts: list[int]) -> Change:
    cell = max((index for index, first in enumerate(firsts) if first < change.start), default=0)
    first = firsts[cell] if firsts else 0
    change.message = f"cell {cell + 1}: {change.message}"
    change.start, change.end = change.start - first, change.end - first
    return change


def _dump(notebook: Any, text: str) -> str:
    indent = re.match(r"\{\r?\n( +)", text)
    ascii_only = text.isascii()
    new = json.dumps(notebook, indent=len(indent[1]) if indent else None, ensure_ascii=ascii_only)
    return new + ("\n" if text.endswith("\n") else "")
