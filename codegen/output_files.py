"""Files that a generator writes. A file that would not change is left alone, so that nothing is compiled twice."""

from pathlib import Path


def holds(path: Path, content: str) -> bool:
    return path.is_file() and path.read_text(encoding="utf-8") == content


def write_if_changed(path: Path, content: str) -> None:
    if holds(path, content):
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")
