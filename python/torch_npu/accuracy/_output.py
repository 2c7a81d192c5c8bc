"""Writes dump.json, stack.json, construct.json and dump_tensor_data/*.pt of one step and rank, in the layout of msprobe."""

from __future__ import annotations

import json
import math
import sys
import zlib
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ..tools.report import write_text
from ._config import Config

_WRAPPED = [
    getattr(torch._C.DispatchKey, name)
    for name in ("Python", "Fake", "FuncTorchBatched", "FuncTorchGradWrapper", "Functionalize")
    if hasattr(torch._C.DispatchKey, name)
]
_NUMBERS = ("Max", "Min", "Mean", "Norm")


def has_overflowed(inputs: Any, outputs: Any) -> bool:
    return not _finite(outputs) and _finite(inputs)


def _finite(values: Any) -> bool:
    tensors = [each for each in pytree.tree_leaves(values) if isinstance(each, torch.Tensor)]
    return all(is_finite(each) for each in tensors)


def is_finite(tensor: torch.Tensor) -> bool:
    """Whether all values are finite. True also for a tensor without readable values."""
    tensor = _unwrapped(tensor)
    if not (tensor.is_floating_point() or tensor.is_complex()) or why_unreadable(tensor) or not tensor.numel():
        return True
    tensor = tensor.detach()
    if tensor.is_floating_point() and tensor.element_size() == 1:
        tensor = tensor.float()
    return bool(torch.isfinite(tensor).all())


def why_unreadable(tensor: torch.Tensor) -> str:
    """The reason why the values of the tensor cannot be read; "" if they can."""
    keys = torch._C._dispatch_keys(tensor)
    if any(keys.has(key) for key in _WRAPPED):
        return "it is a subclass of torch.Tensor or belongs to a transform"
    if tensor.layout != torch.strided or tensor.is_nested:
        return "it is not strided"
    if tensor.is_quantized:
        return "it is quantized"
    if tensor.is_meta or (tensor.numel() and not tensor._is_zerotensor() and not tensor.untyped_storage().data_ptr()):
        return "it has no memory"
    return ""


class Output:
    """The files of one step. Statistics stay on the device until write(), so that recording does not wait for the device."""

    def __init__(self, folder: Path, config: Config) -> None:
        self._folder, self._config = folder, config
        self._tensors = folder / "dump_tensor_data" if config.writes_tensors else None
        (self._tensors or folder).mkdir(parents=True, exist_ok=True)
        self._data: dict[str, dict[str, Any]] = {}
        self._stacks: dict[tuple[str, ...], list[str]] = {}
        self._parents: dict[str, str | None] = {}
        self._pending: list[tuple[dict[str, Any], torch.Tensor]] = []
        self._failed = False

    def snapshot(self, values: Any) -> Any:
        def copy(each: Any) -> Any:
            if not isinstance(each, torch.Tensor):
                return each
            if why_unreadable(_unwrapped(each)):
                return each
            copied = each.detach().clone()
            return copied.requires_grad_(each.requires_grad)

        with torch._C.DisableTorchFunction():
            return pytree.tree_map(copy, values)

    def forward(self, name: str, args: Any, kwargs: Any, result: Any, stack: list[str], parent: str | None) -> None:
        with torch.no_grad():
            entry: dict[str, Any] = {}
            if self._config.wants("input"):
                entry["input_args"] = [self._value(f"{name}.input.{i}", each) for i, each in enumerate(args)]
                entry["input_kwargs"] = {key: self._value(f"{name}.input.{key}", each) for key, each in kwargs.items()}
            if self._config.wants("output"):
                results = result if isinstance(result, tuple | list) else (result,)
                entry["output"] = [self._value(f"{name}.output.{i}", each) for i, each in enumerate(results)]
        self._add(name, entry, stack, parent)

    def gradient(self, name: str, side: str, place: int, value: torch.Tensor, stack: list[str], parent: str | None) -> None:
        if not self._config.wants(side):
            return
        if name not in self._data:
            self._add(name, {"input": [], "output": []}, stack, parent)
        values = self._data[name][side]
        values.extend([None] * (place + 1 - len(values)))
        with torch.no_grad():
            values[place] = self._value(f"{name}.{side}.{place}", value)

    def _add(self, name: str, entry: dict[str, Any], stack: list[str], parent: str | None) -> None:
        self._data[name] = entry
        self._stacks.setdefault(tuple(stack), []).append(name)
        self._parents[name] = parent

    def _value(self, name: str, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return self._tensor(name, value.detach(), value.requires_grad)
        if isinstance(value, list | tuple) and not isinstance(value, torch.Size):
            return [self._value(f"{name}.{i}", each) for i, each in enumerate(value)]
        if isinstance(value, dict):
            return {str(key): self._value(f"{name}.{key}", each) for key, each in value.items()}
        if value is None or isinstance(value, bool | int | str):
            return {"type": type(value).__name__, "value": value}
        if isinstance(value, float):
            return {"type": "float", "value": value if math.isfinite(value) else str(value)}
        if torch.is_storage(value):  # its text has all elements
            return {"type": str(type(value)), "value": None}
        return {"type": str(type(value)), "value": str(value)}

    def _tensor(self, name: str, value: torch.Tensor, requires_grad: bool) -> dict[str, Any]:
        value = _unwrapped(value)
        told: dict[str, Any] = {"type": "torch.Tensor", "dtype": str(value.dtype), "shape": _shape(value)}
        told.update(dict.fromkeys(_NUMBERS))
        plain = not why_unreadable(value)
        if plain and value.numel():
            self._pending.append((told, _statistics(value)))
        told["requires_grad"] = requires_grad
        if plain and self._config.summary_mode == "md5":
            told["md5"] = f"{zlib.crc32(_bytes(value)):08x}"
        if plain and self._save(name, value):
            told["data_name"] = f"{name}.pt"
        return told

    def _save(self, name: str, value: torch.Tensor) -> bool:
        """Whether there is a file, and it is whole. The first failure ends the writing of tensors."""
        if self._failed or self._tensors is None or not self._config.writes_tensors_of(name):
            return False
        path = self._tensors / f"{name}.pt"
        host = value.cpu().contiguous().clone()
        try:
            torch.save(host, path)
        except (OSError, RuntimeError) as error:
            self._failed = True
            path.unlink(missing_ok=True)
            reason = str(error).splitlines()[0]
            told = (
                f"torch_npu: {path} cannot be written; is the disk full? ({reason}); no more tensors are written, "
                "and the program goes on"
            )
            print(told, file=sys.stderr, flush=True)
        return not self._failed

    def write(self) -> None:
        try:
            for told, numbers in self._pending:
                for key, number in zip(_NUMBERS, numbers.tolist(), strict=True):
                    told[key] = number if math.isfinite(number) else str(number)
            self._pending.clear()
        except RuntimeError as error:  # a graph capture is open, or an operator has failed
            reason = str(error).splitlines()[0]
            print(f"torch_npu: statistics are missing: {reason}; the program goes on", file=sys.stderr, flush=True)
        content = {
            "task": "statistics" if self._config.task == "statistics" else "tensor",
            "level": self._config.level,
            "framework": "pytorch",
            "dump_data_dir": str(self._tensors.absolute()) if self._tensors else None,
            "data": self._data,
        }
        stacks = {str(number): [names, list(lines)] for number, (lines, names) in enumerate(self._stacks.items())}
        for name, part in (("dump", content), ("stack", stacks), ("construct", self._parents)):
            try:
                write_text(self._folder / f"{name}.json", json.dumps(part, indent=1))
            except OSError as error:
                print(f"torch_npu: {error.strerror or error}; the program goes on", file=sys.stderr, flush=True)
                return


def _unwrapped(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor inside the wrappers of torch.func.grad."""
    while torch._C._functorch.is_gradtrackingtensor(tensor):
        tensor = torch._C._functorch.get_unwrapped(tensor)
    return tensor.detach()


def _shape(value: torch.Tensor) -> list[int | str]:
    try:
        return [each if type(each) is int else str(each) for each in value.shape]
    except RuntimeError:  # a nested tensor
        return [value.size(0), *["?"] * (value.dim() - 1)]


def _statistics(value: torch.Tensor) -> torch.Tensor:
    """Max, Min, Mean and Norm, on the device of the tensor. float64 also for integers: float32 has no 16777217."""
    if value.dtype == torch.complex32:  # which has no abs() on the CPU
        value = value.to(torch.complex64)
    numbers = value.abs() if value.is_complex() else value
    narrow = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.uint16)
    wide = (
        numbers.float()
        if (numbers.is_floating_point() and numbers.dtype != torch.float64) or numbers.dtype in narrow
        else numbers.double()
    )
    least, greatest = wide.aminmax()
    return torch.stack([greatest, least, wide.mean(), torch.linalg.vector_norm(wide)])


def _bytes(value: torch.Tensor) -> bytes:
    return bytes(value.cpu().contiguous().reshape(-1).view(torch.uint8).numpy()) if value.numel() else b""
