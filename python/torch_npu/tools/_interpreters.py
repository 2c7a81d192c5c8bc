"""Compares the running Python with the one that commands on PATH and installed packages belong to, by full path.

    running = Interpreter.running()
    for other in on_path(running): print(other.executable, other.prefix, other.package)

Two environments may link to one binary. So neither the name nor the resolved path of an executable tells them apart, but
sys.prefix does. This module imports neither torch nor the plugin.
"""

from __future__ import annotations

import json
import os
import platform
import shlex
import shutil
import site
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

_NAMES = ("python", "python3")
_SECONDS = 10
_EXEC = "'''exec' "  # how pip begins the second line where the path is too long for the first
_QUESTION = """
import importlib.util, json, sys
spec = importlib.util.find_spec("torch_npu")
folders = list(spec.submodule_search_locations or []) if spec else []
print(json.dumps([sys.prefix, sys.version.split()[0], folders[0] if folders else ""]))
"""


@dataclass(frozen=True)
class Interpreter:
    """package: the folder of the torch_npu that it would import; empty if there is none."""

    executable: str
    prefix: str
    version: str
    package: str

    @classmethod
    def running(cls) -> Interpreter:
        return cls(sys.executable, sys.prefix, platform.python_version(), sys.modules["torch_npu"].__path__[0])

    @classmethod
    def at(cls, executable: str) -> Interpreter | None:
        """Starts the interpreter and asks it; None if it does not answer."""
        try:
            asked = subprocess.run([executable, "-c", _QUESTION], capture_output=True, text=True, timeout=_SECONDS)
            return cls(executable, *json.loads(asked.stdout))
        except (OSError, ValueError, TypeError, subprocess.TimeoutExpired):
            return None

    def is_same_environment(self, other: Interpreter) -> bool:
        return Path(self.prefix).resolve() == Path(other.prefix).resolve()


def on_path(running: Interpreter) -> list[Interpreter]:
    """The interpreters of other environments that the commands python and python3 start, one per environment."""
    found = [path for name in _NAMES if (path := shutil.which(name)) and not is_same(path, running.executable)]
    others: dict[Path, Interpreter] = {}
    for other in map(Interpreter.at, found):
        if other is not None and not other.is_same_environment(running):
            others.setdefault(Path(other.prefix).resolve(), other)
    return list(others.values())


def of_script(path: str) -> str | None:
    """The interpreter in the first line of a script, as pip writes it; None for another kind of file."""
    try:
        with open(path, "rb") as file:
            first = file.readline(4096).decode(errors="replace")
            second = file.readline(4096).decode(errors="replace")
    except OSError:
        return None
    if not first.startswith("#!"):
        return None
    if first.strip() == "#!/bin/sh" and second.startswith(_EXEC):
        first = second[len(_EXEC) - 2 :]
    try:
        words = shlex.split(first[2:])
    except ValueError:
        return None
    return words[0] if words else None


def owns(folder: Path) -> bool:
    """Whether a folder of packages belongs to the running interpreter: its prefix, its base, or the user's own packages."""
    bases = (sys.prefix, sys.base_prefix, site.getuserbase())
    return any(folder.resolve().is_relative_to(Path(base).resolve()) for base in bases)


def is_same(path: str, executable: str) -> bool:
    """Whether two paths start one interpreter in one environment, as bin/python and bin/python3 do."""
    one, other = Path(os.path.abspath(path)), Path(os.path.abspath(executable))
    return one.parent.resolve() == other.parent.resolve() and one.resolve() == other.resolve()
