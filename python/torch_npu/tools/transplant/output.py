"""Where results go. All is written into a temporary folder first and then renamed, so that nothing is left half-written."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from pathlib import Path

from .sources import Listing

UNDO = ".transplant_undo"
MANIFEST = "manifest.json"


class BadInput(Exception):
    pass


def stage(folder: Path) -> Path:
    """A temporary folder beside the result."""
    try:
        return Path(tempfile.mkdtemp(prefix=".transplant_", dir=folder))
    except OSError as error:
        raise BadInput(f"the output path {folder} cannot be written: {error.strerror}") from None


def copy_rest(root: Path, target: Path, found: Listing, files: list[str]) -> list[str]:
    """Copies what the conversion has not written: other files, empty folders and links. Returns the files that cannot be read."""
    unreadable = []
    for folder in found.folders:
        (target / folder).mkdir(parents=True, exist_ok=True)
    for file in files:
        output = target / file
        if not output.exists():
            output.parent.mkdir(parents=True, exist_ok=True)
            try:
                shutil.copy2(root / file, output)
            except PermissionError:
                unreadable.append(file)
    for link in found.links:
        output = target / link
        output.parent.mkdir(parents=True, exist_ok=True)
        os.symlink(os.readlink(root / link), output)
    return unreadable


def publish(staged: Path, target: Path, replace: bool) -> None:
    """Renames the temporary folder to the result. An older result is replaced only on request."""
    staged.chmod(0o755)
    if target.exists() and replace:
        old = Path(tempfile.mkdtemp(prefix=".transplant_old_", dir=target.parent))
        os.rename(target, old / target.name)
        os.rename(staged, target)
        shutil.rmtree(old, ignore_errors=True)
        return
    try:
        os.rename(staged, target)
    except OSError as error:
        raise BadInput(f"the result {target} cannot be written: {error.strerror}") from None


def replace_in_place(root: Path, staged: Path, files: list[str]) -> None:
    """Replaces files by their converted versions, and keeps the originals for undo()."""
    folder = root / UNDO
    originals = folder / "originals"
    manifest = _manifest(folder)
    for file in files:
        if file not in manifest:
            (originals / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / file, originals / file)
        manifest[file] = _digest(staged / file)
    folder.mkdir(exist_ok=True)
    text = json.dumps({"version": 1, "files": manifest}, indent=1) + "\n"
    (folder / f"{MANIFEST}.new").write_text(text, encoding="utf-8")
    os.replace(folder / f"{MANIFEST}.new", folder / MANIFEST)
    for file in files:
        os.replace(staged / file, root / file)


def undo(root: Path, force: bool) -> int:
    """Restores the originals of an in-place conversion, and returns how many."""
    folder = root / UNDO
    if not (folder / MANIFEST).is_file():
        raise BadInput(f"{root} has no conversion to undo: {folder / MANIFEST} does not exist")
    manifest = _manifest(folder)
    for file, digest in manifest.items():
        path = root / file
        if not force and (not path.is_file() or _digest(path) != digest):
            raise BadInput(f"{path} was changed after its conversion; --force restores the original nevertheless")
    for file in manifest:
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        os.replace(folder / "originals" / file, root / file)
    shutil.rmtree(folder)
    return len(manifest)


def _manifest(folder: Path) -> dict[str, str]:
    try:
        return dict(json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["files"])
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError):
        raise BadInput(f"{folder / MANIFEST} is damaged: restore the files in {folder / 'originals'} by hand") from None


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
