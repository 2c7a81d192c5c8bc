"""Reads and writes source files in their own encoding, and lists the files of a project."""

from __future__ import annotations

import io
import os
import re
import tokenize
from dataclasses import dataclass
from pathlib import Path

from .configs import kind

LIMIT = 10 << 20
"""Larger files are copied, not converted."""
IGNORED = frozenset((".git", ".hg", ".svn", "__pycache__", ".transplant_undo"))
KERNELS = (".cu", ".cuh")
_CODING = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")


@dataclass
class Source:
    text: str
    encoding: str
    mark: bytes = b""
    """The byte order mark."""

    def encode(self, text: str) -> bytes:
        return self.mark + text.encode(self.encoding)


class Unreadable(Exception):
    pass


def decode(content: bytes) -> Source:
    """The text of a file, by its byte order mark, its coding line, as UTF-8, or else as Latin-1, which keeps every byte."""
    if b"\0" in content[:4096]:
        raise Unreadable("it is a binary file")
    mark = b"\xef\xbb\xbf" if content.startswith(b"\xef\xbb\xbf") else b""
    content = content[len(mark) :]
    lines = content.split(b"\n", 2)[:2]
    declared = next((match[1].decode("ascii") for line in lines if (match := _CODING.match(line))), "utf-8")
    try:
        tokenize.detect_encoding(io.BytesIO(content).readline)
    except SyntaxError:
        declared = "utf-8"
    for encoding in (declared, "utf-8", "latin-1"):
        try:
            text = content.decode(encoding)
        except (UnicodeDecodeError, LookupError):
            continue
        if text.encode(encoding) == content:
            return Source(text, encoding, mark)
    raise Unreadable("its encoding is not known")


def wants(name: str) -> bool:
    """Whether a file may be converted, by its name."""
    return name.endswith((".py", ".ipynb")) or kind(name) != ""


@dataclass
class Listing:
    files: list[str]
    links: list[str]
    folders: list[str]
    size: int
    skipped: list[str]


def listing(root: Path) -> Listing:
    """Everything below a folder, by relative paths. Links are not followed."""
    result = Listing([], [], [], 0, [])
    stack = [""]
    while stack:
        relative = stack.pop()
        with os.scandir(root / relative) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                path = f"{relative}/{entry.name}" if relative else entry.name
                if entry.is_symlink():
                    result.links.append(path)
                elif entry.is_dir(follow_symlinks=False):
                    if entry.name not in IGNORED:
                        result.folders.append(path)
                        stack.append(path)
                elif entry.is_file(follow_symlinks=False):
                    result.files.append(path)
                    result.size += entry.stat(follow_symlinks=False).st_size
                else:
                    result.skipped.append(path)
    result.files.sort()
    return result
