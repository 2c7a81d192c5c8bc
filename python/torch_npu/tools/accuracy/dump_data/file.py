"""Dump files of single operators: reading, writing, names.

    write(Path("Add.add.3.0.1700000000000000"), OpDump("add", inputs=[Block.of(x)], outputs=[Block.of(y, "bfloat16")]))
    dump = read(path)                       # DumpError with one sentence if it is not a dump file
    dump.outputs[0].values()                # numpy; bfloat16 as float32
    parse_name("Add.add.3.0.1700000000000000")

A file of version 2 holds the length of the header (8 bytes, little-endian), the header (message.py), and then the blocks of
inputs, outputs, buffers and workspaces. The header has the sizes of the blocks. A file of version 1 is one message that also
holds the data."""

from __future__ import annotations

import os
import re
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from . import types
from .message import DumpData

_LENGTH = struct.Struct("<Q")
_NAME = re.compile(r"(?P<type>[^.]+)\.(?P<name>[^.]*)\.(?P<numbers>\d+(?:\.\d+)*)")
_UNWANTED = re.compile(r"[./\\ ]")


class DumpError(ValueError):
    """A failure, as one sentence with the name of the file."""


@dataclass
class Block:
    """A tensor of an operator, in the form of the file."""

    data: bytes
    data_type: int = 0  # types.DATA_TYPES
    format: int = 2  # types.FORMATS
    shape: tuple[int, ...] = ()
    original_shape: tuple[int, ...] = ()
    address: int = 0

    @staticmethod
    def of(values: np.ndarray, type_name: str | None = None, format: str = "ND") -> Block:
        """`type_name` is needed for a type that numpy lacks, such as "bfloat16" for float32 values."""
        name = type_name or values.dtype.name
        if name not in types.TYPE_NUMBERS:
            raise ValueError(f"a dump file cannot hold the data type {name}; it can hold {', '.join(types.TYPE_NUMBERS)}")
        data = types.to_bytes(values, type_name)
        return Block(data, types.TYPE_NUMBERS[name], types.FORMAT_NUMBERS[format], tuple(values.shape), tuple(values.shape))

    def values(self) -> np.ndarray:
        return types.from_bytes(self.data, self.data_type, self.shape)

    def raw(self) -> np.ndarray:
        """The bytes, for data types that types.DATA_TYPES lacks."""
        return np.frombuffer(self.data, np.uint8)


@dataclass
class OpDump:
    name: str
    inputs: list[Block] = field(default_factory=list)
    outputs: list[Block] = field(default_factory=list)
    buffers: list[tuple[int, bytes]] = field(default_factory=list)  # type and data
    spaces: list[tuple[int, bytes]] = field(default_factory=list)
    attributes: dict[str, str] = field(default_factory=dict)
    time: int = 0  # microseconds since 1970; 0: now
    version: str = "2.0"


@dataclass(frozen=True)
class Name:
    """The parts of a name `type.name.task[.stream].time`. More numbers may come before the time."""

    type: str
    name: str
    task: int
    stream: int | None
    time: int


def file_name(op_type: str, op_name: str, task: int, stream: int, microseconds: int) -> str:
    """The name of a dump file. Dots, slashes and spaces of the operator's names become underscores."""
    return f"{_UNWANTED.sub('_', op_type)}.{_UNWANTED.sub('_', op_name)}.{task}.{stream}.{microseconds}"


def parse_name(name: str) -> Name | None:
    """The parts of the name of a dump file; None for other names."""
    found = _NAME.fullmatch(name)
    numbers = [int(number) for number in found["numbers"].split(".")] if found else []
    if found is None or len(numbers) < 2:
        return None
    return Name(found["type"], found["name"], numbers[0], numbers[1] if len(numbers) > 2 else None, numbers[-1])


def encode(dump: OpDump) -> bytes:
    """The bytes of a file of version 2."""
    header = DumpData(version=dump.version, dump_time=dump.time or time.time_ns() // 1000, op_name=dump.name)
    for block in dump.inputs:
        _describe(header.input.add(), block)
    for block in dump.outputs:
        _describe(header.output.add(), block)
    for kind, data in dump.buffers:
        header.buffer.add(type=kind, size=len(data))
    for kind, data in dump.spaces:
        header.space.add(type=kind, size=len(data))
    for name, value in dump.attributes.items():
        header.attr.add(name=name, value=value)
    text = header.SerializeToString()
    blocks = [block.data for block in (*dump.inputs, *dump.outputs)]
    return b"".join([_LENGTH.pack(len(text)), text, *blocks, *(data for _, data in (*dump.buffers, *dump.spaces))])


def _describe(message: Any, block: Block) -> None:
    message.data_type, message.format, message.size = block.data_type, block.format, len(block.data)
    message.shape.dim.extend(block.shape)
    message.original_shape.dim.extend(block.original_shape)
    message.address = block.address


def write(path: str | os.PathLike[str], dump: OpDump) -> None:
    """Writes a complete file under another name and renames it. OSError if that fails; then no file remains."""
    path = Path(path)
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_bytes(encode(dump))
        part.replace(path)
    except OSError:
        part.unlink(missing_ok=True)
        raise


def read(path: str | os.PathLike[str], version: int = 2) -> OpDump:
    path = Path(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DumpError(f"{path} cannot be read: {error.strerror}") from None
    return _decode_whole(path, data) if version == 1 else _decode(path, data)


def _parse(path: Path, text: bytes, version: int) -> Any:
    header = DumpData()
    try:
        header.ParseFromString(text)
    except DecodeError:
        advice = f"if it has another version, give -v {3 - version}"
        raise DumpError(f"{path} is not a dump file of version {version}: its header cannot be decoded; {advice}") from None
    return header


def _decode(path: Path, data: bytes) -> OpDump:
    if len(data) < _LENGTH.size:
        raise DumpError(f"{path} is truncated or not a dump file of an operator: it has only {len(data)} bytes")
    length = _LENGTH.unpack_from(data)[0]
    if length > len(data) - _LENGTH.size:
        raise DumpError(
            f"{path} is truncated or not a dump file of version 2: its header needs {length} bytes, the file has {len(data)}; "
            "if it is of version 1, give -v 1"
        )
    begin = _LENGTH.size + length
    header = _parse(path, data[_LENGTH.size : begin], 2)
    parts = [*header.input, *header.output, *header.buffer, *header.space]
    end = begin + sum(part.size for part in parts)
    if end != len(data):
        raise DumpError(f"{path} is truncated or damaged: its header describes {end} bytes, but the file has {len(data)}")
    pieces = []
    for part in parts:
        pieces.append(data[begin : begin + part.size])
        begin += part.size
    return _of_header(header, pieces)


def _decode_whole(path: Path, data: bytes) -> OpDump:
    header = _parse(path, data, 1)
    if not header.input and not header.output:
        raise DumpError(f"{path} is not a dump file of version 1: it holds no input and no output")
    return _of_header(header, [part.data for part in (*header.input, *header.output, *header.buffer, *header.space)])


def _of_header(header: Any, pieces: Sequence[bytes]) -> OpDump:
    rest = iter(pieces)
    return OpDump(
        header.op_name,
        [_block(part, next(rest)) for part in header.input],
        [_block(part, next(rest)) for part in header.output],
        [(part.type, next(rest)) for part in header.buffer],
        [(part.type, next(rest)) for part in header.space],
        {part.name: part.value for part in header.attr},
        header.dump_time,
        header.version,
    )


def _block(part: Any, data: bytes) -> Block:
    return Block(data, part.data_type, part.format, tuple(part.shape.dim), tuple(part.original_shape.dim), part.address)
