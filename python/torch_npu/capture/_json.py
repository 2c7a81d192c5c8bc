"""Writes dump.json and .pt files in the layout of msprobe: <folder>/dump.json and <folder>/dump_tensor_data/<name>.pt."""

from __future__ import annotations

import collections
import contextlib
import hashlib
import json
import math
import os
from pathlib import Path
from typing import Any

import torch

from ..tools.report import write_text
from ._record import Record, TensorValue, statistics_of


class JsonWriter:
    """The names of calls are Aten.<name>.<k>.forward and Aten.<node>.<k>.backward; k counts the calls of a name and direction.
    `tensors` adds a .pt file for each tensor. Equal tensors share one file by hard links."""

    def __init__(self, folder: str | os.PathLike[str], tensors: bool = True) -> None:
        self.folder = Path(folder)
        self._tensors = self.folder / "dump_tensor_data" if tensors else None
        (self._tensors or self.folder).mkdir(parents=True, exist_ok=True)
        self._counts: collections.Counter[tuple[str, bool]] = collections.Counter()
        self._entries: list[str] = []  # the members of "data", encoded
        self._files: dict[tuple[Any, ...], Path] = {}

    def write(self, record: Record) -> None:
        count = self._counts[record.name, record.backward]
        self._counts[record.name, record.backward] += 1
        name = f"Aten.{record.name}.{count}.{'backward' if record.backward else 'forward'}"
        inputs = [self._value(f"{name}.input.{i}", item) for i, item in enumerate(record.inputs.values())]
        outputs = [self._value(f"{name}.output.{i}", item) for i, item in enumerate(record.outputs.values())]
        entry: dict[str, Any] = {"input": inputs} if record.backward else {"input_args": inputs, "input_kwargs": {}}
        entry["output"] = outputs
        # Not json.dumps with an indent: that does not use the encoder in C, and took most of the writer's time.
        self._entries.append(f"{json.dumps(name)}: {json.dumps(entry)}")

    def close(self) -> None:
        content = {
            "task": "tensor" if self._tensors else "statistics",
            "level": "L1",
            "framework": "pytorch",
            "dump_data_dir": str(self._tensors.absolute()) if self._tensors else None,
        }
        head = json.dumps(content).removesuffix("}")
        entries = ",\n".join(self._entries)
        write_text(self.folder / "dump.json", f'{head}, "data": {{\n{entries}\n}}}}\n')

    def _value(self, name: str, value: Any) -> Any:
        if isinstance(value, TensorValue):
            return self._tensor(name, value)
        if isinstance(value, list):
            return [self._value(f"{name}.{i}", item) for i, item in enumerate(value)]
        if isinstance(value, bool | int | float | str):
            return {"type": type(value).__name__, "value": value if not _is_odd(value) else str(value)}
        return None if value is None else {"type": type(value).__name__, "value": str(value)}

    def _tensor(self, name: str, value: TensorValue) -> dict[str, Any]:
        numbers = value.statistics or (statistics_of(value.data) if value.data is not None else {})
        described: dict[str, Any] = {"type": "torch.Tensor", "dtype": str(value.dtype), "shape": list(value.shape)}
        for key in ("Max", "Min", "Mean", "Norm"):
            number = numbers.get(key)
            described[key] = str(number) if _is_odd(number) else number
        described["requires_grad"] = value.requires_grad
        if self._tensors is not None and value.data is not None:
            described["data_name"] = f"{name}.pt"
            self._save(self._tensors / f"{name}.pt", value)
        return described

    def _save(self, path: Path, value: TensorValue) -> None:
        assert value.data is not None
        content = value.data.view(-1).view(torch.uint8).numpy() if value.data.numel() else b""
        key = (hashlib.blake2b(content, digest_size=16).digest(), value.dtype, value.shape)
        known = self._files.get(key)
        path.unlink(missing_ok=True)
        if known is not None:
            with contextlib.suppress(OSError):  # the file system has no hard links, or the file has too many
                os.link(known, path)
                return
        reason = ""
        try:
            torch.save(value.data, path)
        except (OSError, RuntimeError) as error:
            reason = str(error).split("\n")[0]
        if reason:  # outside of the handler, because the exception holds the open file
            path.unlink(missing_ok=True)
            raise OSError(f"{path} cannot be written; is the disk full? ({reason})")
        self._files[key] = path


def _is_odd(value: Any) -> bool:
    """A number, or a text for NaN and infinity, which JSON lacks."""
    return isinstance(value, float) and not math.isfinite(value)
