"""Reads a folder of dump files of operators, at any depth, or of .npy files made from such files by `msaccucmp convert`.

Files with other names are skipped. Operators are in the order of their time stamps.
"""

from __future__ import annotations

import collections
import re
from pathlib import Path

import numpy as np

from . import dump_data
from .errors import INVALID_PATH, NO_DUMP_FILE, UNREADABLE, AccuracyError
from .runs import Op, Run, Value

_ARRAY = re.compile(r"(?P<dump>.+)\.(?P<side>input|output)\.(?P<index>\d+)\.npy")
_GOLDEN = re.compile(r"(?P<name>[^.]+)\.(?P<index>\d+)\.(?P<time>\d+)\.npy")


def dump_files(path: Path) -> list[Path]:
    """The dump files of a folder, or the one file."""
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise AccuracyError(INVALID_PATH, f"{path} does not exist; give a dump file or a folder of them")
    return sorted(each for each in path.rglob("*") if each.is_file() and dump_data.parse_name(each.name))


def read_folder(path: Path, version: int = 2) -> Run:
    found = dump_files(path)
    ops = [_of_dump(each, version) for each in found] or _of_arrays(path)
    if not ops:
        expected = "type.name.task.stream.time, or .npy files made by convert"
        raise AccuracyError(NO_DUMP_FILE, f"{path} holds no dump file; their names are {expected}")
    ops.sort(key=lambda op: (op.number, op.path))
    return Run(path, [_numbered(op, place) for place, op in enumerate(ops, 1)], "binary")


def _numbered(op: Op, place: int) -> Op:
    op.number = place
    return op


def _of_dump(path: Path, version: int) -> Op:
    name = dump_data.parse_name(path.name)
    try:
        dump = dump_data.read(path, version)
    except dump_data.DumpError as error:
        raise AccuracyError(UNREADABLE, str(error)) from None
    inputs, outputs = (
        [_value(path, side, place, block) for place, block in enumerate(blocks)]
        for side, blocks in (("input", dump.inputs), ("output", dump.outputs))
    )
    if name is None:  # one file that the user named
        return Op(dump.name or path.name, dump.time, inputs, outputs, str(path))
    return Op(name.name, name.time, inputs, outputs, str(path), kind=name.type)


def _value(path: Path, side: str, place: int, block: dump_data.Block) -> Value:
    def load() -> np.ndarray:
        try:
            return block.values() if block.data_type in dump_data.DATA_TYPES else block.raw()
        except ValueError as error:
            raise AccuracyError(UNREADABLE, f"{path}, {side} {place}: {error}") from None

    details = {"address": block.address, "format": dump_data.format_name(block.format)}
    return Value(str(place), f"{path}:{side}:{place}", dump_data.type_name(block.data_type), block.shape, load, True, details)


def _of_arrays(path: Path) -> list[Op]:
    groups: dict[str, list[tuple[str, int, Path]]] = collections.defaultdict(list)
    for each in sorted(path.rglob("*.npy")) if path.is_dir() else []:
        if found := _ARRAY.fullmatch(each.name):
            groups[found["dump"]].append((found["side"], int(found["index"]), each))
        elif found := _GOLDEN.fullmatch(each.name):
            groups[f"{found['name']}.{found['time']}"].append(("output", int(found["index"]), each))
    ops = []
    for dump, files in groups.items():
        name = dump_data.parse_name(dump)
        sides = {side: [_array(each, i) for s, i, each in sorted(files) if s == side] for side in ("input", "output")}
        kind, shown = (name.type, name.name) if name else ("", dump.partition(".")[0])
        ops.append(Op(shown, int(dump.rpartition(".")[2]), sides["input"], sides["output"], str(path / dump), kind=kind))
    return ops


def _array(path: Path, place: int) -> Value:
    values = load_array(path)
    return Value(str(place), str(path), values.dtype.name, values.shape, lambda: values)


def load_array(path: Path) -> np.ndarray:
    """The array of an .npy file. AccuracyError names the file."""
    try:
        values = np.load(path, allow_pickle=False)
    except FileNotFoundError:
        raise AccuracyError(INVALID_PATH, f"{path} does not exist") from None
    except (OSError, ValueError, EOFError) as error:
        raise AccuracyError(UNREADABLE, f"{path} is not a readable .npy file; it may be truncated ({str(error)[:120]})") from None
    if not isinstance(values, np.ndarray):
        raise AccuracyError(UNREADABLE, f"{path} is an archive of arrays; give an .npy file")
    if values.dtype.kind not in "biufc":
        raise AccuracyError(UNREADABLE, f"{path} holds no numbers: its data type is {values.dtype}")
    return values
