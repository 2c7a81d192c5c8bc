"""Reads and checks include/types.yaml and include/functions.yaml; the heads of those files explain the rows.

    abi = Abi(Path("include"))

A mistake raises TableError with one sentence that names file, line, row and reason.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

from table_rows import Row, TableError, is_rows, pick, read_sections, read_table

__all__ = ["Abi", "TableError"]

BUILTIN_SIZES = {
    "void": 0, "bool": 1, "char": 1, "unsigned char": 1, "int": 4, "float": 4, "double": 8, "size_t": 8,
    "int8_t": 1, "int16_t": 2, "int32_t": 4, "int64_t": 8, "uint8_t": 1, "uint16_t": 2, "uint32_t": 4, "uint64_t": 8,
}  # fmt: skip
STATUS_WORDS = ("works", "refuses")
FLAG_WORDS = ("anytime", "direct")
RESULT_OF_LIBRARY = {"ascendcl": "aclError", "hccl": "HcclResult", "msprofiler": "aclError"}  # what generated entry points return


@dataclass
class Type:
    name: str
    kind: str  # number, opaque, pointer (handles too), callback, enum, struct or union
    size: int
    align: int
    text: str = ""  # the right side of a typedef
    constants: list[tuple[str, str]] = field(default_factory=list)  # of an enum: name, literal
    fields: list[tuple[str, str, int]] = field(default_factory=list)  # of a struct or union: declaration, name, offset


@dataclass
class Section:
    title: str
    codes: list[tuple[str, str]] = field(default_factory=list)  # name, literal
    constants: list[tuple[str, str]] = field(default_factory=list)  # name, literal
    types: list[Type] = field(default_factory=list)
    functions: "list[Function]" = field(default_factory=list)


@dataclass
class Header:
    path: str
    about: str
    includes: list[str]
    sections: list[Section] = field(default_factory=list)


@dataclass(frozen=True)
class Argument:
    type: str
    name: str
    nullable: bool
    kind: str

    @property
    def is_pointer(self) -> bool:
        return self.kind in ("pointer", "callback")


@dataclass(frozen=True)
class Function:
    row: Row
    returns: str
    name: str
    arguments: tuple[Argument, ...]
    variadic: bool
    status: str
    flags: tuple[str, ...]
    remark: str
    library: str

    @property
    def has_entry(self) -> bool:
        """Whether a generated entry point checks the arguments before it calls the hand-written function."""
        result = RESULT_OF_LIBRARY.get(self.library)
        return self.returns == result and not self.variadic and "direct" not in self.flags


class Abi:
    def __init__(self, tables: Path) -> None:
        self.headers: dict[str, Header] = {}  # by path, in the order of the table
        self.groups: list[tuple[str, str, list[Function]]] = []  # title, library, functions, in the order of the table
        self._types = {name: Type(name, "number", size, size) for name, size in BUILTIN_SIZES.items()}
        self._names: dict[str, Row] = {}  # every declared C name -> its row
        self._numbers: dict[str, int] = {}  # name of a constant -> its value
        types_file, functions_file = tables / "types.yaml", tables / "functions.yaml"
        headers, sections = pick(read_table(types_file), types_file, ("headers", "sections"))
        for row in headers.rows():
            self._add_header(row)
        for item in sections.items():
            if not is_rows(item):
                sections.fail("a list of sections is expected")
            self._add_types(item, types_file)
        for item in read_sections(functions_file):
            self._add_functions(item, functions_file)

    @property
    def functions(self) -> list[Function]:
        return [function for _, _, functions in self.groups for function in functions]

    @property
    def sections(self) -> list[Section]:
        return [section for header in self.headers.values() for section in header.sections]

    def _add_header(self, row: Row) -> None:
        about, includes = pick(row.rows(), row.file, ("about",), ("includes",))
        names = includes.names() if includes else []
        for name in names:
            if name not in self.headers and not name.startswith("std"):
                row.fail(f"it includes `{name}`, which no row above declares")
        self.headers[row.key] = Header(row.key, about.text(), names)

    def _header(self, row: Row) -> Header:
        return self.headers.get(row.text()) or row.fail(f"types.yaml lists no header `{row.value}`")

    def _claim(self, row: Row, name: str) -> None:
        if not re.fullmatch(r"[A-Za-z_]\w*", name):
            row.fail(f"`{name}` is not a C name")
        if name in BUILTIN_SIZES:
            row.fail(f"`{name}` is a type of C itself")
        if first := self._names.get(name):
            row.fail(f"`{name}` is declared twice, first in line {first.line} of {first.file}")
        self._names[name] = row

    def _literal(self, row: Row) -> tuple[str, str]:
        match = re.fullmatch(r"(-?(?:0x[0-9a-f]+|\d+))u?", row.text())
        if not match:
            row.fail(f"`{row.value}` is not a number")
        self._claim(row, row.key)
        self._numbers[row.key] = int(match[1], 0)
        return row.key, row.value

    def _resolve(self, row: Row, type_text: str) -> Type:
        """The type that `const T *const *` names; all pointers are one type."""
        base = " ".join(re.sub(r"\bconst\b|\*", " ", type_text).split())
        if base not in self._types:
            row.fail(f"the type `{base}` is not declared above it")
        return Type(type_text, "pointer", 8, 8) if "*" in type_text else self._types[base]

    def _resolve_value(self, row: Row, type_text: str) -> Type:
        found = self._resolve(row, type_text)
        return found if found.size else row.fail(f"`{type_text.strip()}` has no size, only a pointer to it can be used")

    def _add_types(self, rows: list[Row], file: Path) -> None:
        kinds = ("codes", "constants", "types", "enums", "structs")
        title, header, *tables = pick(rows, file, ("section", "header"), kinds)
        section = Section(title.text())
        self._header(header).sections.append(section)
        codes, constants, types, enums, structs = (table.rows() if table else [] for table in tables)
        section.codes += [self._literal(row) for row in codes]
        section.constants += [self._literal(row) for row in constants]
        section.types += [self._read_type(row) for row in types]
        section.types += [self._read_enum(row) for row in enums]
        section.types += [self._read_struct(row) for row in structs]

    def _add_type(self, row: Row, new_type: Type) -> Type:
        self._claim(row, new_type.name)
        self._types[new_type.name] = new_type
        return new_type

    def _read_type(self, row: Row) -> Type:
        text = row.text()
        if re.fullmatch(r"struct \w+", text):
            return self._add_type(row, Type(row.key, "opaque", 0, 1, text))
        if match := re.fullmatch(r"(.+?)\(\*\)\((.*)\)", text):
            self._resolve(row, match[1])
            self._read_arguments(row, match[2])
            return self._add_type(row, Type(row.key, "callback", 8, 8, text))
        target = self._resolve_value(row, text)
        return self._add_type(row, Type(row.key, target.kind, target.size, target.align, text))

    def _read_enum(self, row: Row) -> Type:
        return self._add_type(row, Type(row.key, "enum", 4, 4, constants=[self._literal(member) for member in row.rows()]))

    def _read_struct(self, row: Row) -> Type:
        match = re.fullmatch(r"(struct|union) (\w+) size (\d+) align (\d+)", row.key)
        if not match:
            row.fail("`struct NAME size BYTES align BYTES` is expected")
        kind, name, size, align = match[1], match[2], int(match[3]), int(match[4])
        fields, end, widest = [], 0, 1
        for member in row.rows():
            declaration = re.fullmatch(r"(.*?[ *])(\w+)((?:\[\w+\])*)", member.key) or member.fail("a C field is expected")
            member_type = self._resolve_value(member, declaration[1])
            offset = round_up(end, member_type.align) if kind == "struct" else 0
            if member.text() != str(offset):
                member.fail(f"the offset is {offset} by the fields above it, not {member.value}")
            end = max(end, offset + member_type.size * self._count(member, declaration[3]))
            widest = max(widest, member_type.align)
            fields.append((member.key, declaration[2], offset))
        if (size, align) != (round_up(end, widest), widest):
            row.fail(f"its fields make size {round_up(end, widest)} and align {widest}")
        return self._add_type(row, Type(name, kind, size, align, fields=fields))

    def _count(self, row: Row, dimensions: str) -> int:
        total = 1
        for count in re.findall(r"\w+", dimensions):
            number = int(count) if count.isdecimal() else self._numbers.get(count, 0)
            total *= number or row.fail(f"`{count}` is neither a number nor a constant above zero")
        return total

    def _add_functions(self, rows: list[Row], file: Path) -> None:
        title, header, library, table = pick(rows, file, ("section", "header", "library", "functions"))
        functions = [self._read_function(row, library.text()) for row in table.rows()]
        self._header(header).sections.append(Section(title.text(), functions=functions))
        self.groups.append((title.text(), library.text(), functions))

    def _read_function(self, row: Row, library: str) -> Function:
        signature = re.fullmatch(r"(.+?)(\w+)\((.+)\)", row.key) or row.fail("a C signature is expected")
        self._resolve(row, signature[1])
        self._claim(row, signature[2])
        words, _, remark = row.text().partition(" - ")
        status, *flags = words.split() or [""]
        for word, known in ((status, STATUS_WORDS), *((flag, FLAG_WORDS) for flag in flags)):
            if word not in known:
                row.fail(f"unknown word `{word}`; known are {', '.join(known)}")
        arguments, variadic = self._read_arguments(row, signature[3])
        returns = signature[1].strip()
        result = RESULT_OF_LIBRARY.get(library, "aclError")
        if status == "refuses" and (returns != result or variadic or flags):
            row.fail(f"only a plain function that returns {result} can refuse")
        return Function(row, returns, signature[2], arguments, variadic, status, tuple(flags), remark.strip(), library)

    def _read_arguments(self, row: Row, text: str) -> tuple[tuple[Argument, ...], bool]:
        parts = [part.strip() for part in text.split(",")] if text != "void" else []
        variadic = parts[-1:] == ["..."]
        arguments = []
        for part in parts[:-1] if variadic else parts:
            match = re.fullmatch(r"(.*?[ *])(\w+)(\??)", part) or row.fail(f"`{part}` is not a named argument")
            argument_type = match[1].strip()
            argument = Argument(argument_type, match[2], bool(match[3]), self._resolve_value(row, argument_type).kind)
            if argument.nullable and not argument.is_pointer:
                row.fail(f"`{argument.name}?` is neither a pointer nor a handle")
            arguments.append(argument)
        return tuple(arguments), variadic


def round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
