"""One HTML file from titles, sentences and tables. It loads nothing from elsewhere and carries its data as JSON.

    table = Table(["operator", "calls"], [["aten::add", 3]])
    text = page("Coverage of train.py", [Section("Operators", ["57 operators"], [table])], data={"version": 1})
    write_text(Path("coverage.html"), text)          # the file is whole or unchanged
    read_data(text)                                   # the data again

A click on the head of a column sorts a table. The field above a table filters its rows. Every text is escaped. A Cell has a kind,
which sets its colour. A Section may have a tree of Nodes, which open and close without a script.
"""

from __future__ import annotations

import html
import json
import os
import re
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

KINDS = ("good", "warning", "bad", "plain")


def _check_kind(of: str, kind: str) -> None:
    if kind not in KINDS:
        raise ValueError(f"the kind of a {of} is one of {', '.join(KINDS)}, but got {kind!r}")


@dataclass(frozen=True)
class Cell:
    text: Any
    kind: str = "plain"  # one of KINDS

    def __post_init__(self) -> None:
        _check_kind("cell", self.kind)


@dataclass(frozen=True)
class Table:
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]  # Cells, texts or numbers; a list of texts is shown as lines

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"a row has {len(row)} cells, but the table has {len(self.columns)} columns: {row!r}")


@dataclass(frozen=True)
class Node:
    """A node of a tree. A click on a node shows or hides its children."""

    text: str
    kind: str = "plain"  # one of KINDS
    note: str = ""  # a text after the text of the node
    is_open: bool = False
    children: list[Node] = field(default_factory=list)

    def __post_init__(self) -> None:
        _check_kind("node", self.kind)


@dataclass(frozen=True)
class Section:
    title: str
    sentences: Sequence[str] = ()
    tables: Sequence[Table] = field(default_factory=tuple)
    tree: Node | None = None
    code: str = ""  # preformatted text, such as a traceback or a diff
    figure: str = ""  # SVG of figures.py; not escaped


def page(title: str, sections: Iterable[Section], data: Any = None) -> str:
    body = "\n".join(_section(section) for section in sections)
    return _PAGE.format(title=_escaped(title), style=_STYLE, body=body, data=_embedded(data), script=_SCRIPT)


def read_data(text: str) -> Any:
    """The data of a page. ValueError if the text is not such a page."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    if found is None:
        raise ValueError("the text is no report page: it carries no data")
    return json.loads(found[1])


def write_text(path: Path, text: str) -> None:
    """Writes a file by renaming a complete one. OSError names the path."""
    folder = path.parent
    try:
        name = folder / f".{path.name[:200]}.{secrets.token_hex(4)}"
        handle = os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o666)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise
    except OSError as error:
        raise OSError(error.errno, f"{path} cannot be written: {error.strerror}") from None


def _escaped(value: Any) -> str:
    return html.escape(str(value), quote=True)


def _embedded(data: Any) -> str:
    """JSON inside of <script>: no text of it can end the element or begin a comment."""
    text = json.dumps(data, ensure_ascii=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _section(section: Section) -> str:
    parts = [f"<h2>{_escaped(section.title)}</h2>"] if section.title else []
    parts += [f"<p>{_escaped(sentence)}</p>" for sentence in section.sentences]
    parts += [_table(table) for table in section.tables]
    if section.tree:
        parts.append(f'<div class="tree">{_node(section.tree)}</div>')
    if section.figure:
        parts.append(f"<figure>{section.figure}</figure>")
    if section.code:
        parts.append(f"<pre>{_escaped(section.code)}</pre>")
    return f"<section>{''.join(parts)}</section>"


def _node(node: Node) -> str:
    shown = f'<span class="{node.kind}">{_escaped(node.text)}</span> {_escaped(node.note)}'
    if not node.children:
        return f'<div class="leaf">{shown}</div>'
    opened = " open" if node.is_open else ""
    return f"<details{opened}><summary>{shown}</summary>{''.join(map(_node, node.children))}</details>"


def _table(table: Table) -> str:
    head = "".join(f"<th>{_escaped(column)}</th>" for column in table.columns)
    rows = "\n".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in table.rows)
    return f'<input class="filter" placeholder="filter"><table><thead><tr>{head}</tr></thead><tbody>\n{rows}\n</tbody></table>'


def _cell(value: Any) -> str:
    cell = value if isinstance(value, Cell) else Cell(value)
    if isinstance(cell.text, (list, tuple)):
        return f'<td class="{cell.kind}">{"<br>".join(map(_escaped, cell.text))}</td>'
    number = isinstance(cell.text, (int, float)) and not isinstance(cell.text, bool)
    return f'<td class="{cell.kind}{" number" if number else ""}">{_escaped(cell.text)}</td>'


_STYLE = """
body { font-family: sans-serif; margin: 2em; color: #222; background: #fff }
table { border-collapse: collapse; margin: .5em 0 1.5em }
th, td { border: 1px solid #ccc; padding: .25em .6em; text-align: left; vertical-align: top; font-size: 14px }
th { background: #eee; cursor: pointer; position: sticky; top: 0 }
td.number { text-align: right }
.good { background: #e3f4e3 } .warning { background: #fdf3d1 } .bad { background: #fadcdc }
.tree { font-size: 14px; line-height: 1.5 }
.tree details details, .tree .leaf { margin-left: 1.2em }
.tree span { padding: 0 .3em }
pre { background: #f6f6f6; padding: 1em; overflow-x: auto }
figure { margin: 0; border: 1px solid #ccc; overflow-x: auto }
input.filter { display: block; margin-top: 1em }
"""

_SCRIPT = """
document.querySelectorAll("table").forEach(function (table) {
  const body = table.tBodies[0], rows = Array.from(body.rows), up = [];
  table.querySelectorAll("th").forEach(function (head, column) {
    head.addEventListener("click", function () {
      up[column] = !up[column];
      rows.sort(function (a, b) {
        const x = a.cells[column].innerText, y = b.cells[column].innerText, n = x - y;
        return (up[column] ? 1 : -1) * (isNaN(n) ? x.localeCompare(y) : n);
      });
      rows.forEach(function (row) { body.appendChild(row); });
    });
  });
  const field = table.previousElementSibling;
  field.addEventListener("input", function () {
    const wanted = field.value.toLowerCase();
    rows.forEach(function (row) { row.hidden = !row.innerText.toLowerCase().includes(wanted); });
  });
});
"""

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>{title}</title><style>{style}</style></head>
<body>
<h1>{title}</h1>
{body}
<script type="application/json" id="data">{data}</script>
<script>{script}</script>
</body>
</html>
"""
