"""Reads and checks include/types.yaml and include/functions.yaml; the heads of those files explain the rows.

    abi = Abi(Path("include"))

A mistake raises TableError with one sentence that names file, line, row and reason.
"""

import re
from dataclasses import dataclass, field

import yaml

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
BUILTIN_SIZES = {
    "void": 0, "bool": 1, "char": 1, "unsigned char": 1, "int": 4, "float": 4, "double": 8, "size_t": 8,
    "int8_t": 1, "int16_t": 2, "int32_t": 4, "int64_t": 8, "uint8_t": 1, "uint16_t": 2, "uint32_t": 4, "uint64_t": 8,
}  # fmt: skip
STATUS_WORDS = ("works", "refuses")
FLAG_WORDS = ("anytime", "direct")


class TableError(Exception):
    pass


@dataclass(frozen=True)
class Row:
    """One `key: value` of a table; the value is text, a list of rows, or a list of such values."""

    file: str
    line: int
    key: str
    value: object

    def fail(self, reason):
        raise TableError(f"{self.file}, line {self.line}, row `{self.key}`: {reason}.")

    def text(self):
        return self.value if isinstance(self.value, str) else self.fail("a single value is expected")

    def rows(self):
        return self.value if is_rows(self.value) else self.fail("indented rows are expected")

    def items(self):
        return self.value if isinstance(self.value, list) and not is_rows(self.value) else self.fail("a list is expected")


def is_rows(value):
    return isinstance(value, list) and bool(value) and all(isinstance(item, Row) for item in value)


def read_table(path):
    """The content of a YAML file as rows that know their lines; every scalar stays as it is written."""

    def convert(node):
        if isinstance(node, yaml.ScalarNode):
            return node.value
        if isinstance(node, yaml.SequenceNode):
            return [convert(item) for item in node.value]
        rows = [Row(str(path), key.start_mark.line + 1, str(key.value), convert(value)) for key, value in node.value]
        first = {}
        for row in rows:
            if first.setdefault(row.key, row) is not row:
                row.fail(f"it is declared twice, first in line {first[row.key].line}")
        return rows

    try:
        tree = yaml.compose(path.read_text(encoding="utf-8"), Loader=LOADER)
    except yaml.MarkedYAMLError as error:
        raise TableError(f"{path}, line {error.problem_mark.line + 1}: not YAML, {error.problem}.") from None
    except OSError as error:
        raise TableError(f"{path}: cannot be read, {error.strerror}.") from None
    return convert(tree) if tree else []


def pick(rows, owner, required, optional=()):
    """The rows of the `required` and `optional` keys in that order; any other key is a mistake."""
    if not is_rows(rows):
        raise TableError(f"{owner}: rows with {', '.join(required)} are expected.")
    found = {row.key: row for row in rows}
    for row in rows:
        if row.key not in (*required, *optional):
            row.fail(f"unknown word; known are {', '.join((*required, *optional))}")
    for key in required:
        if key not in found:
            raise TableError(f"{owner}, line {rows[0].line}, row `{rows[0].key}`: `{key}` is missing beside it.")
    return [found.get(key) for key in (*required, *optional)]


@dataclass
class Type:
    name: str
    kind: str  # number, opaque, pointer (handles too), callback, enum, struct or union
    size: int
    align: int
    text: str = ""  # what a typedef stands for
    members: list = field(default_factory=list)  # (name, literal) of an enum, (declaration, name, offset) of a struct


@dataclass
class Section:
    title: str
    codes: list = field(default_factory=list)  # (name, literal)
    constants: list = field(default_factory=list)  # (name, literal)
    types: list = field(default_factory=list)
    functions: list = field(default_factory=list)


@dataclass
class Header:
    path: str
    about: str
    includes: list
    sections: list = field(default_factory=list)


@dataclass(frozen=True)
class Argument:
    type: str
    name: str
    nullable: bool
    kind: str

    @property
    def is_pointer(self):
        return self.kind in ("pointer", "callback")


@dataclass(frozen=True)
class Function:
    row: Row
    returns: str
    name: str
    arguments: tuple
    variadic: bool
    status: str
    flags: tuple
    remark: str
    library: str

    @property
    def has_entry(self):
        """Whether a generated entry point stands in front of the behaviour."""
        return self.library == "ascendcl" and self.returns == "aclError" and not self.variadic and "direct" not in self.flags


class Abi:
    def __init__(self, tables):
        self.headers = {}  # path -> Header, in the order of the table
        self.groups = []  # (title, library, functions) in the order of the table
        self._types = {name: Type(name, "number", size, size) for name, size in BUILTIN_SIZES.items()}
        self._names = {}  # every C name that is taken -> its row
        self._numbers = {}  # name of a constant -> its value
        types_file, functions_file = tables / "types.yaml", tables / "functions.yaml"
        headers, sections = pick(read_table(types_file), types_file, ("headers", "sections"))
        for row in headers.rows():
            self._add_header(row)
        for item in sections.items():
            self._add_types(item, types_file)
        for item in read_table(functions_file):
            self._add_functions(item, functions_file)

    @property
    def functions(self):
        return [function for _, _, functions in self.groups for function in functions]

    @property
    def sections(self):
        return [section for header in self.headers.values() for section in header.sections]

    def _add_header(self, row):
        about, includes = pick(row.rows(), row.file, ("about",), ("includes",))
        includes = includes.items() if includes else []
        for name in includes:
            if name not in self.headers and not name.startswith("std"):
                row.fail(f"it includes `{name}`, which no row above declares")
        self.headers[row.key] = Header(row.key, about.text(), includes)

    def _header(self, row):
        return self.headers.get(row.text()) or row.fail(f"types.yaml lists no header `{row.value}`")

    def _claim(self, row, name):
        if not re.fullmatch(r"[A-Za-z_]\w*", name):
            row.fail(f"`{name}` is not a C name")
        if name in BUILTIN_SIZES:
            row.fail(f"`{name}` is a type of C itself")
        if first := self._names.get(name):
            row.fail(f"`{name}` is declared twice, first in line {first.line} of {first.file}")
        self._names[name] = row

    def _literal(self, row):
        match = re.fullmatch(r"(-?(?:0x[0-9a-f]+|\d+))u?", row.text())
        if not match:
            row.fail(f"`{row.value}` is not a number")
        self._claim(row, row.key)
        self._numbers[row.key] = int(match[1], 0)
        return row.key, row.value

    def _resolve(self, row, type_text):
        """The type that `const T *const *` names; every pointer is alike."""
        base = " ".join(re.sub(r"\bconst\b|\*", " ", type_text).split())
        if base not in self._types:
            row.fail(f"the type `{base}` is not declared above it")
        return Type(type_text, "pointer", 8, 8) if "*" in type_text else self._types[base]

    def _resolve_value(self, row, type_text):
        found = self._resolve(row, type_text)
        return found if found.size else row.fail(f"`{type_text.strip()}` has no size, only a pointer to it can be used")

    def _add_types(self, rows, file):
        kinds = ("codes", "constants", "types", "enums", "structs")
        title, header, *tables = pick(rows, file, ("section", "header"), kinds)
        section = Section(title.text())
        self._header(header).sections.append(section)
        readers = (self._literal, self._literal, self._read_type, self._read_enum, self._read_struct)
        targets = (section.codes, section.constants, section.types, section.types, section.types)
        for table, read, target in zip(tables, readers, targets, strict=True):
            target += [read(row) for row in table.rows()] if table else []

    def _add_type(self, row, new_type):
        self._claim(row, new_type.name)
        self._types[new_type.name] = new_type
        return new_type

    def _read_type(self, row):
        text = row.text()
        if re.fullmatch(r"struct \w+", text):
            return self._add_type(row, Type(row.key, "opaque", 0, 1, text))
        if match := re.fullmatch(r"(.+?)\(\*\)\((.*)\)", text):
            self._resolve(row, match[1])
            self._read_arguments(row, match[2])
            return self._add_type(row, Type(row.key, "callback", 8, 8, text))
        target = self._resolve_value(row, text)
        return self._add_type(row, Type(row.key, target.kind, target.size, target.align, text))

    def _read_enum(self, row):
        return self._add_type(row, Type(row.key, "enum", 4, 4, members=[self._literal(member) for member in row.rows()]))

    def _read_struct(self, row):
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
        return self._add_type(row, Type(name, kind, size, align, members=fields))

    def _count(self, row, dimensions):
        total = 1
        for count in re.findall(r"\w+", dimensions):
            number = int(count) if count.isdecimal() else self._numbers.get(count, 0)
            total *= number or row.fail(f"`{count}` is not the number of something")
        return total

    def _add_functions(self, rows, file):
        title, header, library, table = pick(rows, file, ("section", "header", "library", "functions"))
        functions = [self._read_function(row, library.text()) for row in table.rows()]
        self._header(header).sections.append(Section(title.text(), functions=functions))
        self.groups.append((title.text(), library.text(), functions))

    def _read_function(self, row, library):
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
        if status == "refuses" and (returns != "aclError" or variadic or flags):
            row.fail("only a plain function that returns aclError can refuse")
        return Function(row, returns, signature[2], arguments, variadic, status, tuple(flags), remark.strip(), library)

    def _read_arguments(self, row, text):
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


def round_up(value, multiple):
    return -(-value // multiple) * multiple
