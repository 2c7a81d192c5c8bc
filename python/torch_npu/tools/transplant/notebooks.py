"""Jupyter notebooks: the code cells are converted together, as one program."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable

from .changes import Change, FileResult
from .configs import shell_line
from .json_text import offset

_MARK = "# %% cell {} of the notebook"
_MAGIC = re.compile(r"^\s*(%%|[!%?])|\?\s*$")


def convert(file: str, text: str, convert_code: Callable[[str], FileResult]) -> FileResult:
    result = FileResult(file)
    try:
        notebook = json.loads(text)
        numbers = [index for index, cell in enumerate(notebook["cells"]) if cell["cell_type"] == "code"]
        sources = ["".join(notebook["cells"][index]["source"]) for index in numbers]
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
    if len(parts) != len(numbers) + 1:
        result.problem = "its cells do not form one program"
        return result
    result.text = text
    for index, source, part in zip(numbers, sources, _with_head(parts), strict=True):
        code = re.sub(r"^([ \t]*)pass  # magic (\d+)$", lambda found: shown[int(found[2])], part, flags=re.MULTILINE)
        code = code[:-1] if not source.endswith("\n") else code
        if code != source:
            result.text = _replace(result.text, index, code)
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


def _replace(text: str, index: int, code: str) -> str:
    """Replaces the source of a cell; the rest of the file stays as it is."""
    start = offset(text, ("cells", index, "source"))
    old, end = json.JSONDecoder().raw_decode(text, start)
    dump = functools.partial(json.dumps, ensure_ascii=text.isascii())
    if isinstance(old, str):
        return text[:start] + dump(code) + text[end:]
    inner = text[start + 1 : end - 1]
    before, after = inner[: len(inner) - len(inner.lstrip())], inner[len(inner.rstrip()) :]
    lines = [dump(line) for line in code.splitlines(keepends=True)]
    return text[:start] + "[" + before + ("," + (before or " ")).join(lines) + after + "]" + text[end:]
