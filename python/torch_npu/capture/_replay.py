"""Replay: gives calls the inputs from a dump.

A call gets the inputs of the first unused entry of the file with the same name, the same sizes of tensors and the same numbers.
The tensors of the call are overwritten. In an expanded tensor, each element in memory is written once."""

from __future__ import annotations

import collections
import sys
from pathlib import Path
from typing import Any

import torch

from .. import npu
from ..tools.accuracy.names import IGNORED_ARGUMENTS, canonical, canonical_argument
from ._hdf5 import read_entries, tensor_of
from ._record import plain


class Replay:
    def __init__(self, h5py: Any, path: Path, with_acl_dump: bool) -> None:
        try:
            self._file = h5py.File(path, "r")
            entries = read_entries(self._file)
        except (OSError, RuntimeError, KeyError) as error:
            raise OSError(f"cannot read {path}: {error}; dump it again") from None
        self._path, self._acl = path, with_acl_dump
        self._loaded = 0
        self._missed: collections.Counter[str] = collections.Counter()  # calls that ran with their own inputs
        self._open: dict[str, list[tuple[int, Any]]] = {}
        for name, numbers in entries.items():
            groups = [(number, self._file[name][str(number)]) for number in numbers]
            self._open.setdefault(canonical(plain(name)), []).extend(groups)
        for groups in self._open.values():
            groups.sort(key=lambda item: item[0])
        self.last = max((number for numbers in entries.values() for number in numbers), default=0)
        self._dumping = False

    def close(self) -> None:
        self._file.close()
        missed = sum(self._missed.values())
        if not missed:
            return
        names = ", ".join(name for name, _ in self._missed.most_common(5)) + (", ..." if len(self._missed) > 5 else "")
        told = f"{missed} of {self._loaded + missed} calls are not in {self._path} and had their own inputs: {names}"
        if not self._loaded:
            told = f"no call is in {self._path}; is it a dump of this model with inputs of these sizes?"
        print(f"torch.utils.dumper: {told}", file=sys.stderr, flush=True)

    def before(self, name: str, backward: bool, values: dict[str, Any]) -> int:
        """Overwrites the inputs of a call. Returns the number of the entry in the file, or 0. A failure is printed, and the call
        runs
        with its own inputs."""
        number = 0
        try:
            number = self._load(canonical(plain(name)), values)
        except Exception as error:
            print(f"torch.utils.dumper: the inputs of {name} were not loaded: {error}", file=sys.stderr, flush=True)
        if number:
            self._loaded += 1
        else:
            self._missed[name] += 1
        return number

    def after(self) -> None:
        if self._dumping:
            self._dumping = False
            npu.synchronize()
            npu.finalize_dump()

    def _load(self, name: str, values: dict[str, Any]) -> int:
        candidates = self._open.get(name, [])
        for position, (number, group) in enumerate(candidates):
            if not hasattr(group, "keys") or not hasattr(group.get("input"), "keys"):
                continue
            pairs = _pairs(group["input"], values)
            if pairs is None:
                continue
            for tensor, dataset in pairs:
                overwrite(tensor, tensor_of(dataset))
            del candidates[position]
            if self._acl:
                self._begin_dump()
            return number
        return 0

    def _begin_dump(self) -> None:
        """Begins a dump of the device. A failure is printed once, and the calls run without a dump."""
        try:
            npu.init_dump()
            self._dumping = True
            npu.set_dump("acl.json")
        except (OSError, RuntimeError) as error:
            self._acl = False
            reason = str(error).split("\n")[0]
            print(f"torch.utils.dumper: the loaded operators are not dumped: {reason}", file=sys.stderr, flush=True)


def _pairs(group: Any, values: dict[str, Any]) -> list[tuple[torch.Tensor, Any]] | None:
    """Pairs of a tensor of the call and its dataset; None if a size or a number differs."""
    pairs: list[tuple[torch.Tensor, Any]] = []
    for name, value in values.items():
        if name in IGNORED_ARGUMENTS:
            continue
        item = group.get(name)
        if item is None:
            item = next((group[other] for other in group if canonical_argument(other) == canonical_argument(name)), None)
        if isinstance(value, torch.Tensor):
            if item is None or not hasattr(item, "shape") or value.is_nested or tuple(item.shape) != tuple(value.shape):
                return None
            pairs.append((value, item))
        elif isinstance(value, list | tuple) and any(isinstance(each, torch.Tensor) for each in value):
            if item is None or hasattr(item, "shape"):
                return None
            nested = _pairs(item, {f"{name}_{i}": each for i, each in enumerate(value)})
            if nested is None:
                return None
            pairs.extend(nested)
        elif isinstance(value, bool | int | float) and getattr(item, "shape", None) == () and _differs(item, value):
            return None
    return pairs


def _differs(item: Any, value: float) -> bool:
    return item.dtype.kind in "biuf" and float(item[()]) != float(value)


def overwrite(tensor: torch.Tensor, data: torch.Tensor) -> None:
    """Writes `data` to the memory of the tensor. Autograd does not see it."""
    target = torch.ops.aten.alias(tensor.detach())
    for dimension, (size, stride) in enumerate(zip(target.shape, target.stride(), strict=True)):
        if stride == 0 and size > 1:
            target, data = target.narrow(dimension, 0, 1), data.narrow(dimension, 0, 1)
    version = tensor._version if not tensor.is_inference() else 0
    target.copy_(data)
    if not tensor.is_inference():
        torch._C._autograd._unsafe_set_version_counter((tensor,), (version,))
