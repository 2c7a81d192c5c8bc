"""Helpers: dump files in the published layouts, written without a capture, and a writer that keeps the records of a capture."""

from __future__ import annotations

import json
from pathlib import Path

import h5py
import numpy as np

CODES = {"float32": 1, "float16": 10, "int64": 7, "int32": 6, "bool": 9, "float64": 11}


class Records:
    """A writer for torch_npu.capture.Capture that keeps the records in a list."""

    def __init__(self):
        self.all = []

    def write(self, record):
        self.all.append(record)

    def close(self):
        pass

    def names(self, backward=False):
        return [record.name for record in self.all if record.backward == backward]

    def of(self, name):
        return [record for record in self.all if record.name == name]


def write_h5(path: Path, ops, modules=None) -> Path:
    """Writes an HDF5 dump. `ops` are tuples (name, number, {argument: array}, {result: array})."""
    with h5py.File(path, "w") as file:
        if modules:
            file.attrs["Places"] = json.dumps({number: [module, "train.py:1 in step"] for number, module in modules.items()})
        for name, number, inputs, outputs in ops:
            for side, values in (("input", inputs), ("output", outputs)):
                for argument, value in values.items():
                    if isinstance(value, int | float):
                        file.create_dataset(f"/{name}/{number}/{side}/{argument}", data=value).attrs["Type"] = np.int32(7)
                        continue
                    for place, each in enumerate(value) if isinstance(value, list) else [(None, value)]:
                        where = argument if place is None else f"{argument}/{argument}_{place}"
                        stored = each.astype(np.float32) if each.dtype == np.float16 else each
                        item = file.create_dataset(f"/{name}/{number}/{side}/{where}", data=stored)
                        codes = {"DataType": CODES[each.dtype.name], "DeviceType": 0, "FormatType": 0, "Type": 0}
                        for key, code in codes.items():
                            item.attrs[key] = np.int32(code)
                        item.attrs["Stride"] = np.asarray(each.strides, np.int64) // each.itemsize
    return path


def network(
    seed: int = 0, wrong: int | None = None, layers: int = 6, swap: bool = False, drop: int | None = None, noise: float = 0.0
):
    """Operators of a chain of mm and relu with a side branch. Operator `wrong` has one wrong element."""
    weights = np.random.default_rng(seed)
    drift = np.random.default_rng(seed + 1)
    value = weights.standard_normal((8, 8)).astype(np.float32)
    ops = []

    def add(name, inputs, result):
        number = len(ops) + 1
        result = (result * (1 + noise * drift.standard_normal(result.shape))).astype(np.float32)
        if number == wrong:
            result = result.copy()
            result.reshape(-1)[drift.integers(result.size)] += 1
        ops.append((name, number, inputs, {"result": result}))
        return result

    for _ in range(layers):
        weight = weights.standard_normal((8, 8)).astype(np.float32) / 3
        other = weights.standard_normal((8, 8)).astype(np.float32) / 3
        branches = [weight, other]
        made = {i: add("mm", {"self": value, "mat2": branches[i]}, value @ branches[i]) for i in ([1, 0] if swap else [0, 1])}
        active = add("relu", {"self": made[0]}, np.maximum(made[0], 0))
        value = add("add", {"self": active, "other": made[1], "alpha": 1}, active + made[1])
    if drop is not None:
        del ops[drop]
    return ops
