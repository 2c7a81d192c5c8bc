"""A dump of any format: operators in the order of their execution. Their values are read when they are used.

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
    path: str  # the path of the dataset, or the file and the position in it
    type: str  # "float32", "bfloat16", ...: the type of the tensor, which may differ from the type in the file
    shape: tuple[int, ...]
    load: Callable[[], np.ndarray]
    is_tensor: bool = True
    details: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def digest(self) -> str:
        """A hash that is equal for equal shapes and contents. Equal values in half and float precision have the same hash."""
        values = self.load()
        floating = values.dtype.kind == "f"
        text = np.ascontiguousarray(values.astype(np.float32) if floating and values.dtype.itemsize < 4 else values).tobytes()
        return hashlib.blake2b(text + repr(self.shape).encode(), digest_size=16).hexdigest()

    @cached_property
    def text(self) -> str:
        """The text of a value that is not a tensor."""
        return repr(self.load().tolist())


@dataclass
class Op:
    name: str
    number: int  # the position in the order of execution, as the dump numbers it
    inputs: list[Value]
    outputs: list[Value]
    path: str  # the path of the group or file
    kind: str = ""  # the type of the operator, if it differs from the name
    module: str = ""  # the module that called it; "" if unknown
    line: str = ""  # the Python line; "" if unknown


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
    """Whether the file is HDF5: by its first bytes, or by a name that ends in .h5, so that a damaged file is reported as
    damaged."""
    if not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            return file.read(8) == b"\x89HDF\r\n\x1a\n" or path.suffix == ".h5"
    except OSError as error:
        raise AccuracyError(INVALID_PATH, f"{path} cannot be read: {error.strerror}") from None
