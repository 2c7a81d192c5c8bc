"""Dump files of operators, as the device writes them (tools/accuracy/dump_data), for runs on any device.

<folder>/<time>/<device>/0/0/<operator>.<operator>_<k>.<sequence>.0.<microseconds>, with k counted by operator.
"""

from __future__ import annotations

import collections
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from ._record import Record, TensorValue


class AclWriter:
    """One file for each call. A data type that the format lacks, such as float8, has the number 0 and its bytes. `device` is the
    number in the path."""

    def __init__(self, folder: str | os.PathLike[str], device: int = 0) -> None:
        try:
            from ..tools.accuracy import dump_data
        except ImportError as error:
            raise ImportError(
                f"dump files of operators need the package protobuf ({error}); install it with: pip install 'torch_npu[accuracy]'"
            ) from None
        self._dump_data: Any = dump_data
        self.folder = Path(folder) / time.strftime("%Y%m%d%H%M%S") / str(device) / "0" / "0"
        self.folder.mkdir(parents=True, exist_ok=True)
        self._counts: collections.Counter[str] = collections.Counter()
        self._newest = 0  # microseconds: they order the files

    def write(self, record: Record) -> None:
        name = f"{record.name}_{self._counts[record.name]}"
        self._counts[record.name] += 1
        self._newest = max(time.time_ns() // 1000, self._newest + 1)
        inputs, outputs = (
            [self._block(each) for each in _tensors(values.values()) if each.data is not None]
            for values in (record.inputs, record.outputs)
        )
        dump = self._dump_data.OpDump(name, inputs, outputs, time=self._newest)
        path = self.folder / self._dump_data.file_name(record.name, name, record.sequence, 0, self._newest)
        try:
            self._dump_data.write(path, dump)
        except OSError as error:
            raise OSError(f"{path} cannot be written: {error.strerror}") from None

    def close(self) -> None:
        """Each file is whole already."""

    def _block(self, value: TensorValue) -> Any:
        assert value.data is not None
        number = self._dump_data.TYPE_NUMBERS.get(str(value.dtype).removeprefix("torch."), 0)
        data = value.data.reshape(-1).view(torch.uint8).numpy().tobytes() if value.data.numel() else b""
        return self._dump_data.Block(data, number, 2, value.shape, value.shape)


def _tensors(values: Any) -> Iterator[TensorValue]:
    for value in values:
        if isinstance(value, TensorValue):
            yield value
        elif isinstance(value, list):
            yield from _tensors(value)
