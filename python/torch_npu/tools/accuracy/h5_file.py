"""Reads the HDF5 file of torch.utils.dumper: `/<operator>/<number>/input/<argument>` and `/output/<argument>`.

A list of tensors is a group `<argument>` with datasets `<argument>_<i>`. A tensor has the attributes DataType, DeviceType,
FormatType, Type and Stride. Other values have only the attribute Type. The file may have the attribute Places, which is JSON: the
module and the Python line of each number.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .errors import UNREADABLE, AccuracyError
from .layout import in_memory_order
from .runs import Op, Run, Value

# The numbers of the attribute DataType. The vendor's dumper defines the numbers below 15; the others are ours.
DATA_TYPES = {
    1: "float32",
    2: "uint8",
    3: "int8",
    5: "int16",
    6: "int32",
    7: "int64",
    9: "bool",
    10: "float16",
    11: "float64",
    15: "bfloat16",
    16: "complex32",
    17: "complex64",
    18: "complex128",
    19: "uint16",
    20: "uint32",
    21: "uint64",
    22: "float8_e5m2",
    23: "float8_e4m3fn",
    24: "float8_e4m3fnuz",
    25: "float8_e5m2fnuz",
    26: "float8_e8m0fnu",
}
_TENSOR = 0


def read_h5(path: Path) -> Run:
    try:
        import h5py
    except ImportError:
        raise AccuracyError(UNREADABLE, f"reading {path} needs the package h5py: pip install 'torch_npu[accuracy]'") from None
    try:
        file = h5py.File(path, "r")
        ops = sorted(_ops(path, file), key=lambda op: op.number)
    except (OSError, RuntimeError, KeyError, TypeError, ValueError) as error:
        reason = str(error).splitlines()[0][:160]
        raise AccuracyError(
            UNREADABLE, f"{path} is not a readable HDF5 file; it may be truncated or damaged ({reason})"
        ) from None
    return Run(path, ops, "h5")


def _places(file: Any) -> dict[str, list[str]]:
    try:
        found = json.loads(file.attrs.get("Places", "{}"))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _ops(path: Path, file: Any) -> Iterator[Op]:
    places = _places(file)
    for name, calls in file.items():
        if not hasattr(calls, "items"):
            raise AccuracyError(UNREADABLE, f"{path} is not a dump of operators: /{name} is a dataset, but a group is expected")
        for number, call in calls.items():
            if not number.isdigit() or not hasattr(call, "items"):
                raise AccuracyError(
                    UNREADABLE, f"{path} is not a dump of operators: /{name}/{number} must be a group with the number of a call"
                )
            sides = {side: list(_values(path, call[side])) if side in call else [] for side in ("input", "output")}
            if "input" not in call and "output" not in call:
                raise AccuracyError(UNREADABLE, f"{path}: the group /{name}/{number} has neither input nor output")
            module, line = places.get(number, ("", ""))
            yield Op(name, int(number), sides["input"], sides["output"], call.name, module=module, line=line)


def _values(path: Path, group: Any) -> Iterator[Value]:
    if not hasattr(group, "items"):
        raise AccuracyError(UNREADABLE, f"{path}: {group.name} is a dataset, but a group is expected")
    for name in sorted(group, key=_place):
        item = group[name]
        if hasattr(item, "items"):
            yield from _values(path, item)
        else:
            yield _value(path, name, item)


def _place(name: str) -> tuple[str, int]:
    base, _, index = name.rpartition("_")
    return (base, int(index)) if base and index.isdigit() else (name, -1)


def _value(path: Path, name: str, item: Any) -> Value:
    is_tensor = int(item.attrs.get("Type", _TENSOR)) == _TENSOR and "DataType" in item.attrs
    type_name = DATA_TYPES.get(int(item.attrs.get("DataType", 0)), item.dtype.name)

    device = int(item.attrs.get("DeviceType", -1))
    stride = [int(each) for each in item.attrs.get("Stride", ())]

    def load() -> np.ndarray:
        try:
            values = np.asarray(item[()])
        except (OSError, RuntimeError) as error:
            reason = str(error).splitlines()[0][:160]
            raise AccuracyError(UNREADABLE, f"{path}: {item.name} cannot be read; the file may be truncated ({reason})") from None
        if type_name == "uint8" and values.dtype == np.int8:  # the layout has no uint8
            values = values.view(np.uint8)
        if not is_tensor or not in_memory_order(device, item.shape, stride):
            return values
        flat = np.ascontiguousarray(values).reshape(-1)
        return np.lib.stride_tricks.as_strided(flat, item.shape, [step * flat.itemsize for step in stride])

    return Value(name, item.name, type_name, tuple(item.shape), load, is_tensor)
