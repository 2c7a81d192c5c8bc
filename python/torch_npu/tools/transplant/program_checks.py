"""Runs the program of a converted project: --trace lists its operators, --verify compares it with the original."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from .output import BadInput


def entry_file(root: Path, given: str, option: str) -> Path:
    """The entry file, relative to the project."""
    path = (root / given).resolve()
    if not path.is_file() or path.suffix != ".py" or not path.is_relative_to(root.resolve()):
        raise BadInput(f"the entry file {given} of {option} is no Python file below {root}")
    return path.relative_to(root.resolve())


def trace(root: Path, main: Path) -> bool:
    """Prints the operators of the original, run on fake tensors. Returns whether npu has them all."""
    return _run("torch_npu.coverage", "--trace", str(root / main))


def verify(root: Path, main: Path, converted: Path) -> bool:
    """Compares a training step of the converted program on npu with one of the original on the CPU."""
    if converted.is_file():
        return _run("torch_npu.tools.verify", str(root / main), str(converted))
    return _run("torch_npu.tools.verify", str(root), str(converted), "--main", str(main))


def _run(module: str, *arguments: str) -> bool:
    return subprocess.run([sys.executable, "-m", module, *arguments], check=False).returncode == 0
