"""Algorithms of a user: `alg_<Name>.py` in a folder, with `compare(mine, golden, arguments) -> (value, reason)`."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from .compare import Measure
from .errors import INVALID_ALGORITHM, INVALID_PATH, AccuracyError
from .metrics import ALGORITHMS, text_of

_FILE = re.compile(r"alg_([A-Za-z0-9_]+)\.py")


def load_algorithms(folder: Path, options: dict[str, dict[str, str]]) -> dict[str, Measure]:
    if not folder.is_dir():
        raise AccuracyError(INVALID_PATH, f"-c: {folder} is not a folder")
    found = {}
    for path in sorted(folder.rglob("alg_*.py")):
        if match := _FILE.fullmatch(path.name):
            found[match[1]] = _load(path, match[1], options.get(match[1], {}))
    return found


def _load(path: Path, name: str, options: dict[str, str]) -> Measure:
    spec = importlib.util.spec_from_file_location(f"alg_{name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        function = module.compare
    except Exception as error:
        raise AccuracyError(INVALID_ALGORITHM, f"{path} cannot be used: {type(error).__name__}: {error}") from None

    def measure(mine: np.ndarray, golden: np.ndarray) -> tuple[str, str]:
        try:
            value, reason = function(mine, golden, SimpleNamespace(**options))
        except Exception as error:
            return "NaN", f"{path.name} failed: {type(error).__name__}: {error}"
        return text_of(value), str(reason)

    return measure


def parse_options(text: str) -> dict[str, dict[str, str]]:
    """Reads the text `Name:key=value,key=value;Name:...`."""
    found: dict[str, dict[str, str]] = {}
    for part in filter(None, text.split(";")):
        name, colon, pairs = part.partition(":")
        words = [pair.partition("=") for pair in pairs.split(",")]
        if not colon or not all(middle for _, middle, _ in words):
            raise AccuracyError(INVALID_ALGORITHM, f"-a must be 'Name:key=value,...;...', but has {part!r}")
        found[name] = {key: value for key, _, value in words}
    return found


def choose(text: str, custom: dict[str, Any]) -> tuple[list[str], dict[str, Any]]:
    """The built-in algorithms, in their order, and the algorithms of the user that `text` selects: `all`, or numbers and names
    separated by commas."""
    if text == "all":
        return list(ALGORITHMS), custom
    numbered, names = list(ALGORITHMS), []
    for word in filter(None, re.split(r"[,\s]+", text)):
        name = numbered[int(word)] if word.isdigit() and int(word) < len(numbered) else word
        if name not in ALGORITHMS and name not in custom:
            raise AccuracyError(INVALID_ALGORITHM, f"-alg: there is no algorithm {word!r}; known are {', '.join(numbered)}")
        names.append(name)
    return [name for name in numbered if name in names], {name: custom[name] for name in custom if name in names}
