"""Dump files of single operators, as AscendCL writes them: file.py reads and writes them, types.py has the numbers of data types
and formats. Needs numpy and protobuf, but not torch."""

from .file import Block, DumpError, Name, OpDump, encode, file_name, parse_name, read, write
from .types import DATA_TYPES, FORMATS, TYPE_NUMBERS, format_name, type_name

__all__ = [
    "DATA_TYPES",
    "FORMATS",
    "TYPE_NUMBERS",
    "Block",
    "DumpError",
    "Name",
    "OpDump",
    "encode",
    "file_name",
    "format_name",
    "parse_name",
    "read",
    "type_name",
    "write",
]
