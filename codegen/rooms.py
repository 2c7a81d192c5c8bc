"""Checks #include lines and Python imports against codegen/rooms.yaml, the table of rooms and of the rooms that each may use.

    python codegen/rooms.py --check docs/architecture.md     # every edge is allowed and used, and the document shows the table
    python codegen/rooms.py --docs docs/architecture.md      # writes the table into the document
    python codegen/rooms.py --edges                          # prints the edges of the sources, with one line of each

A file belongs to the room with the longest path that contains it. A line that uses another room without permission is named with
its file and line number. So is a permission that no line needs, and a row that names an unknown room.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from table_rows import Row, TableError, pick, read_table

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "codegen/rooms.yaml"
BEGIN, END = "<!-- rooms: codegen/rooms.py writes this table -->", "<!-- end of rooms -->"
# Where a quoted include is looked up, beside the folder of the file that includes it.
INCLUDE_FOLDERS = {
    "csrc": ("csrc", "csrc/api/include", "softnpu"),
    "softnpu": ("softnpu", "softnpu/tests"),
    "bench": ("bench/runtime", "softnpu"),
}
PACKAGES = {"torch_npu": "python/torch_npu", "torch_npu_autoload": "python/torch_npu_autoload"}


@dataclass(frozen=True)
class Room:
    row: Row
    path: str
    about: str
    uses: tuple[str, ...]


@dataclass(frozen=True)
class Use:
    """A line of `file` that uses a file of another room."""

    file: str
    line: int
    source: str
    target: str  # both are rooms
    text: str


def read_rooms(path: Path, folder: Path = ROOT) -> dict[str, Room]:
    """Path -> room. Raises TableError for a row that names an unknown room or folder."""
    rooms = {}
    for row in read_table(path):
        about, uses = pick(row.rows(), str(path), ("about",), ("uses",))
        rooms[row.key] = Room(row, row.key, about.text(), tuple(uses.items()) if uses else ())
    for room in rooms.values():
        if not (folder / room.path).is_dir():
            room.row.fail("there is no such folder")
        for name in room.uses:
            if name not in rooms:
                room.row.fail(f"`{name}` is no room of this table")
            if name == room.path:
                room.row.fail("a room may always use itself")
    return rooms


def room_of(file: str, rooms: dict[str, Room]) -> str | None:
    return max((path for path in rooms if file.startswith(path + "/")), key=len, default=None)


def tracked_files(folder: Path) -> list[str]:
    """The files of the repository and new ones that git does not ignore."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.splitlines()
    return sorted(file for file in set(listed) if (folder / file).is_file())


def included_files(file: str, text: str, known: set[str]) -> Iterator[tuple[int, str]]:
    """Line number and file of each quoted include that names a file of the repository; generated headers are not named."""
    folders = (str(Path(file).parent), *INCLUDE_FOLDERS.get(file.split("/")[0], ()))
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r'\s*#\s*include "([^"]+)"', line)
        for folder in folders if match else ():
            target = f"{folder}/{match[1]}"  # type: ignore[index]
            if target in known:
                yield number, target
                break


def imported_files(file: str, text: str, known: set[str]) -> Iterator[tuple[int, str]]:
    """Line number and file of each import of a module of the package, wherever in the file it stands."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, (ast.Import, ast.ImportFrom)):
            continue
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            base = node.module or ""
            if node.level:
                package = Path(file).parents[node.level - 1].relative_to("python").as_posix().replace("/", ".")
                base = f"{package}.{base}".rstrip(".")
            names = [f"{base}.{alias.name}" for alias in node.names]
        for name in names:
            target = file_of_module(name, known)
            if target:
                yield node.lineno, target


def file_of_module(name: str, known: set[str]) -> str | None:
    """The file of a module, or of the module that holds the name."""
    head, _, rest = name.partition(".")
    if head not in PACKAGES:
        return None
    parts = [PACKAGES[head], *rest.split(".")] if rest else [PACKAGES[head]]
    while parts:
        path = "/".join(parts)
        for candidate in (f"{path}.py", f"{path}/__init__.py"):
            if candidate in known:
                return candidate
        parts.pop()
    return None


READERS = {".h": included_files, ".c": included_files, ".cpp": included_files, ".inc": included_files, ".py": imported_files}


def uses_of(rooms: dict[str, Room], folder: Path = ROOT) -> list[Use]:
    files = tracked_files(folder)
    known = set(files)
    found = []
    for file in files:
        source = room_of(file, rooms)
        reader = READERS.get(Path(file).suffix)
        if source is None or reader is None or (reader is imported_files and not file.startswith("python/")):
            continue
        text = (folder / file).read_text(encoding="utf-8")
        lines = text.splitlines()
        for number, target_file in reader(file, text, known):
            target = room_of(target_file, rooms)
            if target is not None and target != source:
                found.append(Use(file, number, source, target, lines[number - 1].strip()))
    return found


def problems(rooms: dict[str, Room], uses: list[Use]) -> list[str]:
    """A sentence for each line without permission and for each permission without a line."""
    said = [
        f"{use.file}, line {use.line}: `{use.text}` uses {use.target}, which {use.source} may not use ({TABLE.name}, line "
        f"{rooms[use.source].row.line})."
        for use in uses
        if use.target not in rooms[use.source].uses
    ]
    made = {(use.source, use.target) for use in uses}
    for room in rooms.values():
        said += [
            f"{TABLE.name}, line {room.row.line}: {room.path} may use {name}, but no line does; remove the word."
            for name in room.uses
            if (room.path, name) not in made
        ]
    return said


def markdown(rooms: dict[str, Room]) -> str:
    lines = ["| room | what it holds | rooms that it may use |", "|---|---|---|"]
    for room in rooms.values():
        lines.append(f"| `{room.path}` | {room.about} | {', '.join(f'`{name}`' for name in room.uses) or 'none'} |")
    return "\n".join([BEGIN, *lines, END])


def with_table(document: str, path: Path, rooms: dict[str, Room]) -> str:
    if document.count(BEGIN) != 1 or document.count(END) != 1:
        raise TableError(f"{path}: the lines `{BEGIN}` and `{END}` are expected once each.")
    begin, end = document.index(BEGIN), document.index(END) + len(END)
    return document[:begin] + markdown(rooms) + document[end:]


def main() -> int:
    parser = argparse.ArgumentParser(description="Checks which room uses which.")
    parser.add_argument("--table", type=Path, default=TABLE)
    parser.add_argument("--check", type=Path, metavar="DOCUMENT")
    parser.add_argument("--docs", type=Path, metavar="DOCUMENT")
    parser.add_argument("--edges", action="store_true")
    arguments = parser.parse_args()
    try:
        rooms = read_rooms(arguments.table)
        uses = uses_of(rooms)
        if arguments.edges:
            first = {(use.source, use.target): use for use in reversed(uses)}
            for (source, target), use in sorted(first.items()):
                print(f"{source} -> {target}: {use.file}:{use.line}")
            return 0
        found = problems(rooms, uses)
        document = arguments.check or arguments.docs
        if document:
            old = document.read_text(encoding="utf-8")
            new = with_table(old, document, rooms)
            if arguments.docs:
                document.write_text(new, encoding="utf-8")
            elif new != old:
                found.append(f"{document} does not show {TABLE.name}: run python codegen/rooms.py --docs {document}.")
    except (TableError, OSError) as error:
        print(f"rooms: {error}", file=sys.stderr)
        return 1
    for sentence in found:
        print(f"rooms: {sentence}", file=sys.stderr)
    print(f"rooms: {len(rooms)} rooms, {len(uses)} lines that use another room, {len(found)} problems")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
