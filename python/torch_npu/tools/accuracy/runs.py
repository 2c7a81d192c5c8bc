"""What a dump holds, whatever its format: operators in the order of their execution, with lazily read values.

open_run(Path("model_npu.h5")), open_run(Path("dump/20261118120000"))       # AccuracyError with one sentence
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from .errors import INVALID_PATH, NO_DUMP_FILE, AccuracyError


@dataclass
class Value:
    """An argument or result of an operator."""

    name: str  # "self", "tensors_0", "0"
    path: str  # of the dataset, or the file and the place in it
    type: str  # "float32", "bfloat16", ...; that of the tensor, not of the file
    shape: tuple[int, ...]
    load: Callable[[], np.ndarray]
    is_tensor: bool = True
    details: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def digest(self) -> str:
        """Equal for equal contents in equal shapes. Numbers of a half and a float are equal if their values are."""
        values = self.load()
        floating = values.dtype.kind == "f"
        text = np.ascontiguousarray(values.astype(np.float32) if floating and values.dtype.itemsize < 4 else values).tobytes()
        return hashlib.blake2b(text + repr(self.shape).encode(), digest_size=16).hexdigest()

    @cached_property
    def text(self) -> str:
        """Of a value that is no tensor."""
        return repr(self.load().tolist())


@dataclass
class Op:
    name: str
    number: int  # the place in the order of execution as the dump numbers it
    inputs: list[Value]
    outputs: list[Value]
    path: str  # of the group or the file
    kind: str = ""  # the type of the operator where it differs from its name
    module: str = ""  # the module that ran it, where the dump says so
    line: str = ""  # the Python line, where the dump says so


@dataclass
class Run:
    path: Path
    ops: list[Op]
    format: str  # "h5" or "binary"


def open_run(path: Path, version: int = 2) -> Run:
    if not path.exists():
        raise AccuracyError(INVALID_PATH, f"{path} does not exist; give a dump: an .h5 file or a folder of dump files")
    if is_h5(path):
        from .h5_file import read_h5

        run = read_h5(path)
    else:
        from .folder import read_folder

        run = read_folder(path, version)
    if not run.ops:
        raise AccuracyError(NO_DUMP_FILE, f"{path} holds no operator; dump at least one step of the program")
    return run


def is_h5(path: Path) -> bool:
    """By the first bytes; a name that ends in .h5 means one too, so that a damaged file is reported as such."""
    if not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            return file.read(8) == b"\x89HDF\r\n\x1a\n" or path.suffix == ".h5"
    except OSError as error:
        raise AccuracyError(INVALID_PATH, f"{path} cannot be read: {error.strerror}") from None
