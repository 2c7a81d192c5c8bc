"""`msaccucmp convert`: converts each tensor of dump files into an .npy, .bin or .pt file.

The name of an array is `<dump file>.<input|output>.<i>.npy`. If the name is too long for the file system, a number replaces it,
and `mapping.csv` lists the number and the name."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from . import dump_data
from .errors import CANNOT_WRITE, INVALID_PARAMETER, NO_DUMP_FILE, UNREADABLE, AccuracyError
from .folder import dump_files
from .formats import to_format
from .tables import write_csv

_LONGEST = 255
TYPES = ("npy", "bin", "msnpy", "pt")


@dataclass
class Wanted:
    kind: str = "npy"  # one of TYPES
    format: str = ""  # "": unchanged
    shape: tuple[int, ...] = ()
    side: str = ""  # "input", "output" or both
    index: int | None = None
    version: int = 2


def convert(path: Path, out: Path, wanted: Wanted, say: Callable[[str], None] = print) -> int:
    """Converts a file, a comma-separated list of files or a folder. Returns the number of written files."""
    files = [each for part in str(path).split(",") for each in dump_files(Path(part))]
    if not files:
        raise AccuracyError(NO_DUMP_FILE, f"{path} holds no dump file; their names are type.name.task.stream.time")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise AccuracyError(CANNOT_WRITE, f"the folder {out} cannot be made: {error.strerror}") from None
    failures, written = [], 0
    renamed: list[list[str]] = []
    for file in files:
        try:
            written += _convert_file(file, out, wanted, renamed, say)
        except AccuracyError as error:
            if error.status == CANNOT_WRITE or len(files) == 1:
                raise
            failures.append(error)
            print(f"msaccucmp convert: {error}", file=sys.stderr)
    if renamed:
        write_csv(out / "mapping.csv", renamed)
    if failures:
        raise AccuracyError(failures[0].status, f"{len(failures)} of {len(files)} files of {path} were not converted")
    return written


def _convert_file(file: Path, out: Path, wanted: Wanted, renamed: list[list[str]], say: Callable[[str], None]) -> int:
    try:
        dump = dump_data.read(file, wanted.version)
    except dump_data.DumpError as error:
        raise AccuracyError(UNREADABLE, str(error)) from None
    written = 0
    for side, blocks in (("input", dump.inputs), ("output", dump.outputs)):
        if wanted.side and side != wanted.side:
            continue
        if not blocks:
            say(f"There is no {side} in {file}.")
        if wanted.index is not None and wanted.index >= len(blocks):
            raise AccuracyError(INVALID_PARAMETER, f"{file} has {len(blocks)} {side} tensors; there is no index {wanted.index}")
        for place, block in enumerate(blocks):
            if wanted.index is None or wanted.index == place:
                name = _short(f"{file.name}.{side}.{place}.{'npy' if wanted.kind == 'msnpy' else wanted.kind}", renamed)
                if block.data_type not in dump_data.DATA_TYPES:
                    kind = dump_data.type_name(block.data_type)
                    say(f"{file}, {side} {place} has {kind}, which this tool cannot read: its bytes are written")
                _write(out / name, _values(file, side, place, block, wanted), block, wanted.kind)
                say(f"{out / name}")
                written += 1
    return written


def _short(name: str, renamed: list[list[str]]) -> str:
    if len(name.encode()) <= _LONGEST:
        return name
    short = f"{len(renamed)}.{name.rpartition('.')[2]}"
    renamed.append([short, name])
    return short


def _values(file: Path, side: str, place: int, block: dump_data.Block, wanted: Wanted) -> np.ndarray:
    if block.data_type not in dump_data.DATA_TYPES:
        return block.raw()
    try:
        values = block.values()
    except ValueError as error:
        raise AccuracyError(UNREADABLE, f"{file}, {side} {place}: {error}") from None
    if wanted.format:
        shape = wanted.shape or block.original_shape or block.shape
        values = to_format(values, dump_data.format_name(block.format), wanted.format, shape)
    elif wanted.shape:
        if values.size != int(np.prod(wanted.shape)):
            raise AccuracyError(
                INVALID_PARAMETER, f"{file}, {side} {place}: {values.size} elements cannot have the shape {wanted.shape}"
            )
        values = values.reshape(wanted.shape)
    return values


def _write(path: Path, values: np.ndarray, block: dump_data.Block, kind: str) -> None:
    part = path.with_name(f".{path.name}"[:_LONGEST])
    try:
        if kind == "bin":
            part.write_bytes(np.ascontiguousarray(values).tobytes())
        elif kind == "pt":
            _save_torch(part, values, block)
        else:
            with part.open("wb") as file:
                np.save(file, values)
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise AccuracyError(CANNOT_WRITE, f"{path} cannot be written: {error.strerror or error}") from None


def _save_torch(path: Path, values: np.ndarray, block: dump_data.Block) -> None:
    try:
        import torch
    except ImportError:
        raise AccuracyError(INVALID_PARAMETER, "-t pt needs torch, which cannot be imported") from None
    tensor = torch.from_numpy(np.array(values))
    torch.save(tensor.bfloat16() if dump_data.type_name(block.data_type) == "bfloat16" else tensor, path)
