"""The HDF5 layout of torch.utils.dumper: /<name>/<sequence>/input/<argument> and output/<result>.

A tensor is a dataset with the attributes DeviceType, DataType, FormatType, Type and Stride. Half precision is stored as float32,
and one-byte types as int8. The order of the elements is that of the vendor's tool: a CPU or CUDA tensor is stored in the order of
its memory, which Stride describes, and a tensor of another device in the order of its shape. Elements of a list are
<argument>/<argument>_<i>. Other values are datasets with the attribute Type only. Equal tensors are stored once; the others are
hard links. Groups have no attributes, because msaccucmp treats a group with attributes as a dataset. The attribute Places of the
file is JSON: the module and the Python line of each sequence number."""

from __future__ import annotations

import collections
import contextlib
import errno
import hashlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from ..tools.accuracy.layout import in_memory_order
from ._record import Record, TensorValue

# torch.dtype -> (DataType, dtype in the file). The vendor's documents define the numbers 1 to 11.
CODES: dict[torch.dtype, tuple[int, torch.dtype]] = {
    torch.float32: (1, torch.float32),
    torch.uint8: (2, torch.int8),
    torch.int8: (3, torch.int8),
    torch.int16: (5, torch.int16),
    torch.int32: (6, torch.int32),
    torch.int64: (7, torch.int64),
    torch.bool: (9, torch.int8),
    torch.float16: (10, torch.float32),
    torch.float64: (11, torch.float64),
    torch.bfloat16: (15, torch.float32),
    torch.complex32: (16, torch.complex64),
    torch.complex64: (17, torch.complex64),
    torch.complex128: (18, torch.complex128),
    torch.uint16: (19, torch.uint16),
    torch.uint32: (20, torch.uint32),
    torch.uint64: (21, torch.uint64),
    torch.float8_e5m2: (22, torch.float32),
    torch.float8_e4m3fn: (23, torch.float32),
    torch.float8_e4m3fnuz: (24, torch.float32),
    torch.float8_e5m2fnuz: (25, torch.float32),
    torch.float8_e8m0fnu: (26, torch.float32),
}
DTYPES = {code: dtype for dtype, (code, _) in CODES.items()}

LARGE = 8 << 30
_WORTH_COMPRESSING = 4096  # bytes; the index of a smaller dataset takes more than compression saves
_DEVICES = {20: 10}  # torch's number of the device type -> that of the documents: 0 CPU, 1 CUDA, 10 npu
_TENSOR, _INTEGERS, _INTEGER, _BOOL, _DOUBLE, _SCALAR, _DTYPE = 0, 2, 3, 4, 5, 7, 14


def _h5py() -> Any:
    try:
        import h5py
    except ImportError as error:
        raise ImportError(
            f"HDF5 dumps need the package h5py ({error}); install it with: pip install 'torch_npu[accuracy]'"
        ) from None
    return h5py


def _reason(error: Exception) -> str:
    number = getattr(error, "errno", None)
    if number == errno.EAGAIN:
        return "another program or rank has it open"
    return os.strerror(number) if number else str(error).split("\n")[0]


class Hdf5Writer:
    """Writes a new file at `path`; an old file is overwritten. `compress` stores the tensors with gzip."""

    def __init__(self, path: str | os.PathLike[str], compress: bool = False) -> None:
        self.path = Path(path)
        self._h5py = _h5py()
        self._compression = "gzip" if compress else None
        self._stored: dict[tuple[Any, ...], str] = {}
        self._places: dict[int, tuple[str, str]] = {}
        self._bytes = 0
        self._left_out: collections.Counter[str] = collections.Counter()  # tensors without values, by the reason
        try:
            self._file = self._h5py.File(self.path, "w")
        except OSError as error:
            raise OSError(f"{self.path} cannot be written: {_reason(error)}") from None
        self._descriptor: int = self._file.id.get_vfd_handle()

    def write(self, record: Record) -> None:
        with self._naming_the_file():
            self._write(record)

    def close(self) -> None:
        with self._naming_the_file():
            try:
                self._file.attrs["Places"] = json.dumps(self._places)
            finally:
                self._file.close()
        for reason, count in self._left_out.most_common():
            told = f"{self.path} lacks the values of {count} tensors; the reason for each: {reason}"
            print(f"torch_npu: {told}", file=sys.stderr, flush=True)

    @contextlib.contextmanager
    def _naming_the_file(self) -> Iterator[None]:
        try:
            yield
        except (OSError, RuntimeError) as error:  # h5py has either for a full disk
            raise OSError(f"{self.path} cannot be written and is not readable: {_reason(error)}") from None

    def _write(self, record: Record) -> None:
        place = f"/{record.name}/{record.sequence}"
        if record.module or record.line:
            self._places[record.sequence] = record.module, record.line
        for side, values in (("input", record.inputs), ("output", record.outputs)):
            self._file.require_group(f"{place}/{side}")
            for name, value in values.items():
                self._put(f"{place}/{side}/{name}", name, value, record.types.get(name, ""))

    def forget(self) -> None:
        """Call it in the child of a fork. Data that the child still writes to the file is lost."""
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, self._descriptor)
        os.close(nowhere)

    def _put(self, path: str, name: str, value: Any, kind: str) -> None:
        if isinstance(value, TensorValue):
            self._put_tensor(path, value)
        elif isinstance(value, list) and any(isinstance(item, TensorValue) for item in value):
            self._file.require_group(path)
            for i, item in enumerate(value):
                self._put(f"{path}/{name}_{i}", f"{name}_{i}", item, "")
        elif value is not None:
            self._put_number(path, value, kind)

    def _put_tensor(self, path: str, value: TensorValue) -> None:
        if value.data is None or value.dtype not in CODES:
            self._left_out[value.missing or f"a dump has no number for {value.dtype}"] += 1
            return
        code, stored = CODES[value.dtype]
        device = _DEVICES.get(value.device_code, value.device_code)
        data = value.data.view(torch.int8) if value.dtype == torch.uint8 else value.data.to(stored)
        if in_memory_order(device, value.shape, value.stride):
            data = _in_order_of_memory(data, value.stride)
        digest = hashlib.blake2b(data.view(-1).view(torch.uint8).numpy(), digest_size=16).digest() if data.numel() else b""
        key = (digest, code, value.shape, value.stride, value.device_code)
        known = self._stored.get(key)
        if known is not None:
            self._file[path] = self._file[known]
            return
        compression = self._compression if data.dim() and data.nbytes >= _WORTH_COMPRESSING else None
        dataset = self._file.create_dataset(path, data=data.numpy(), compression=compression)
        numbers = {"DeviceType": device, "DataType": code, "FormatType": 2, "Type": _TENSOR}
        for attribute, number in numbers.items():
            dataset.attrs[attribute] = _int32(number)
        dataset.attrs.create("Stride", list(value.stride), dtype="int64")
        self._stored[key] = path
        self._bytes += data.nbytes
        if self._bytes > LARGE and self._bytes - data.nbytes <= LARGE:
            advice = "use a batch of at most 8, dump one step, and leave the optimizer outside the block"
            print(f"torch_npu: the dump {self.path} is larger than {LARGE >> 30} GiB: {advice}", file=sys.stderr, flush=True)

    def _put_number(self, path: str, value: Any, kind: str) -> None:
        data: Any
        if isinstance(value, bool):
            data, code = value, _BOOL
        elif isinstance(value, int):
            data, code = value, _SCALAR if "Scalar" in kind or "number" in kind.lower() else _INTEGER
        elif isinstance(value, float | complex):
            data, code = value, _SCALAR if "number" in kind.lower() else _DOUBLE
        elif isinstance(value, list | tuple) and all(isinstance(item, int) for item in value):
            data, code = [int(item) for item in value], _INTEGERS
        elif isinstance(value, torch.dtype):
            data, code = str(value), _DTYPE
        else:
            data, code = str(value), _SCALAR
        empty = isinstance(data, list) and not data
        dataset = (
            self._file.create_dataset(path, shape=(0,), dtype="int64") if empty else self._file.create_dataset(path, data=data)
        )
        dataset.attrs["Type"] = _int32(code)


def _in_order_of_memory(data: torch.Tensor, stride: tuple[int, ...]) -> torch.Tensor:
    import numpy

    values = data.numpy()
    memory = numpy.zeros(values.size, values.dtype)
    strides = [step * values.itemsize for step in stride]
    numpy.lib.stride_tricks.as_strided(memory, values.shape, strides)[...] = values
    return torch.from_numpy(memory.reshape(values.shape))


def _int32(number: int) -> Any:
    import numpy

    return numpy.int32(number)


def tensor_of(dataset: Any) -> torch.Tensor:
    """The tensor of a dataset that Hdf5Writer or the vendor's tool wrote."""
    data = torch.from_numpy(dataset[()]) if dataset.shape else torch.tensor(dataset[()])
    stride = tuple(int(each) for each in dataset.attrs.get("Stride", ()))
    if in_memory_order(int(dataset.attrs.get("DeviceType", -1)), dataset.shape, stride):
        data = data.as_strided(dataset.shape, stride).contiguous()
    dtype = DTYPES.get(int(dataset.attrs.get("DataType", -1)), data.dtype)
    return data.view(torch.uint8) if dtype == torch.uint8 else data.to(dtype)


def read_entries(file: Any) -> dict[str, list[int]]:
    """The sequence numbers of each name in an open file, ascending. Groups whose name is not a number are skipped."""
    found: dict[str, list[int]] = {}
    for name, group in file.items():
        if hasattr(group, "keys"):
            found[name] = sorted(int(key) for key in group if key.isdigit())
    return found
