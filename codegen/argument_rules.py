"""The argument rules of the device table: the conditions on shapes, dtypes and numbers that phase one checks.

    shapes weight[V, D] indices[I...] out[I..., D]
    where axis(dim, self), size(self, dim) = 2 * size(out, dim)

`shapes` gives each tensor a pattern. A letter stands for the same size everywhere; `I...` for any number of sizes, `3` for
itself, `_` for any size, `...` for any sizes. The numbers of an int array have a pattern too: `normalizedShape[N...]`. The
pattern of a list holds for each of its tensors. Lists that have patterns have one length, and a letter then stands for one size
within the tensors of one position. `momenta[S...]?` is a list that may also be empty.

`where` gives conditions. A number is a literal, an integer parameter, a letter (the product of the sizes of a group), or

    rank(tensor)  size(tensor, dim)  numel(tensor or int array)  count(list or array)  item(int array, i)
    least(int array)      min(a, b)  and + - * / of numbers

and a condition compares two of them (= != < <= > >=, also `0 <= a < b`), or is one of

    axis(dim, tensor)              the tensor has this dimension; a tensor of rank 0 counts as one of rank 1
    axes(dims, tensor)             the same for each number of an array, and no dimension twice
    same(a, b)                     equal shapes
    same_but(dim, a, b)            equal shapes, except along one dimension
    broadcasts(a, b)               a broadcasts to the shape of b
    reduced(a, dims, keepdim, b)   b has the shape of a reduced along dims, along all if dims is empty; dims may be one number
    alike(list)                    all tensors of the list have one shape
    dense(a), by_columns(a)        contiguous, or contiguous with column-major matrices
    given(a)                       the argument is not null
    dtype(a) = dtype(b)            equal types
    dtype(a) in words              words as behind `dtypes`

`a = 1 or b = 2` holds if one of the two does. A pattern or a condition other than given() holds if an argument that it names is
null.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from op_types import Scope, Type
from table_rows import Row

COMPARISONS = ("=", "!=", "<=", "<", ">=", ">")
STEP_OF = {"=": "kEqual", "!=": "kUnequal", "<=": "kLessEqual", "<": "kLess"}
OPERATORS = {"+": "kAdd", "-": "kSubtract", "*": "kMultiply", "/": "kDivide"}
PREDICATES = ("axis", "axes", "same", "same_but", "broadcasts", "reduced", "alike", "dense", "by_columns", "given")
TOKEN = re.compile(r"\s*(\d+|[A-Za-z_]\w*|!=|<=|>=|[-+*/=<>(),])")
MAX_LETTERS = 16


@dataclass(frozen=True)
class Item:
    """One item of a pattern."""

    kind: str  # kLiteral, kSize or kGroup
    letter: str = ""  # empty for `_` and `...`
    value: int = 0


@dataclass(frozen=True)
class Pattern:
    name: str  # the parameter
    text: str  # as written: weight[V, D]
    items: tuple[Item, ...]
    may_be_empty: bool  # of a list


@dataclass(frozen=True)
class Step:
    """One step of a stack machine: it pops numbers, reads parameters and pushes a number."""

    code: str
    names: tuple[str, ...] = ()
    value: int | str = 0  # a literal, a letter, or the words of `in`


Steps = tuple[Step, ...]


@dataclass(frozen=True)
class Condition:
    text: str
    steps: Steps


@dataclass(frozen=True)
class Rules:
    patterns: tuple[Pattern, ...] = ()
    conditions: tuple[Condition, ...] = ()

    @property
    def letters(self) -> tuple[str, ...]:
        found = dict.fromkeys(item.letter for pattern in self.patterns for item in pattern.items if item.letter)
        return tuple(found)

    def __bool__(self) -> bool:
        return bool(self.patterns or self.conditions)


def is_array(parameter_type: Type) -> bool:
    return parameter_type.is_list and parameter_type.base in ("int", "bool", "float")


def split_outside(text: str) -> list[str]:
    """The parts of `a, f(b, c)` at commas outside of parentheses."""
    parts, depth = [""], 0
    for character in text:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


# ---- patterns ----


def read_patterns(row: Row, text: str, scope: Scope) -> tuple[Pattern, ...]:
    """The patterns of `weight[V, D] out[I..., D]`; `scope` gives the type of each parameter."""
    matches = list(re.finditer(r"\s*(\w+)\[([^\]]*)\](\??)", text))
    if "".join(match[0] for match in matches).strip() != text.strip():
        row.fail(f"`{text}` is not a list of patterns such as self[N, C...]")
    patterns: list[Pattern] = []
    bound: set[str] = set()
    for match in matches:
        name, given = match[1], scope.get(match[1]) or row.fail(f"the pattern `{match[0].strip()}` names no parameter")
        if given.base != "Tensor" and not (given.is_list and given.base == "int"):
            row.fail(f"`{name}` is {given}; only tensors, lists of tensors and int arrays have patterns")
        items = tuple(read_item(row, part.strip()) for part in match[2].split(",") if part.strip())
        open_groups = [item for item in items if item.kind == "kGroup" and (not item.letter or item.letter not in bound)]
        if len(open_groups) > 1:
            row.fail(f"`{match[0].strip()}` has two groups of unknown length")
        if match[3] and not (given.is_list and given.base == "Tensor"):
            row.fail(f"`{name}` is {given}; only a list may be empty")
        if not given.optional and not match[3]:
            bound |= {item.letter for item in items if item.letter}
        patterns.append(Pattern(name, match[0].strip(), items, bool(match[3])))
    kinds: dict[str, str] = {}
    for item in (item for pattern in patterns for item in pattern.items if item.letter):
        if kinds.setdefault(item.letter, item.kind) != item.kind:
            row.fail(f"`{item.letter}` is one size in one place and several in another")
    if len(kinds) > MAX_LETTERS:
        row.fail(f"a row has at most {MAX_LETTERS} letters")
    return tuple(patterns)


def read_item(row: Row, text: str) -> Item:
    if re.fullmatch(r"\d+", text):
        return Item("kLiteral", value=int(text))
    match = re.fullmatch(r"(_|[A-Z]\w*)?(\.\.\.)?", text)
    if not text or not match or (match[1] == "_" and match[2]):
        row.fail(f"`{text}` is no size of a pattern: a letter, a number, `_`, `N...` or `...` is expected")
    letter = "" if match[1] in (None, "_") else match[1]
    return Item("kGroup" if match[2] else "kSize", letter)


# ---- conditions ----


def read_conditions(
    row: Row, text: str, scope: Scope, letters: Sequence[str], dtype_words: Sequence[str]
) -> tuple[Condition, ...]:
    """The conditions of `axis(dim, self), rank(self) >= 2`."""
    conditions: list[Condition] = []
    for part in split_outside(text):
        alternatives = [read_alternative(row, one.strip(), scope, letters, dtype_words) for one in part.split(" or ")]
        if len(alternatives) == 1:
            conditions += [Condition(part, steps) for steps in alternatives[0]]
        elif any(len(steps) > 1 for steps in alternatives):
            row.fail(f"`{part}` has an alternative with two comparisons")
        else:
            joined = alternatives[0][0]
            for (steps,) in alternatives[1:]:
                joined = (*joined, Step("kOr"), *steps)
            conditions.append(Condition(part, joined))
    return tuple(conditions)


def read_alternative(row: Row, part: str, scope: Scope, letters: Sequence[str], dtype_words: Sequence[str]) -> list[Steps]:
    """One tuple of steps per comparison of a condition without `or`."""
    if match := re.fullmatch(r"dtype\((\w+)\) in ((?:\w+ ?)+)", part):
        words = match[2].split()
        if unknown := [word for word in words if word not in dtype_words]:
            row.fail(f"`{unknown[0]}` in `{part}` is no type")
        return [(Step("kDtypeIn", (tensor_name(row, match[1], scope),), " ".join(words)),)]
    if match := re.fullmatch(r"dtype\((\w+)\) = dtype\((\w+)\)", part):
        return [(Step("kSameDtype", tuple(tensor_name(row, name, scope) for name in match.groups())),)]
    return Reader(row, part, scope, letters).conditions()


def tensor_name(row: Row, name: str, scope: Scope, allow_list: bool = False) -> str:
    given = scope.get(name)
    if given is None or given.base != "Tensor" or (given.is_list and not allow_list):
        row.fail(f"`{name}` is no tensor")
    return name


class Reader:
    """Reads one condition by recursive descent."""

    def __init__(self, row: Row, text: str, scope: Scope, letters: Sequence[str]) -> None:
        self.row, self.text, self.scope, self.letters = row, text, scope, letters
        self.tokens = TOKEN.findall(text)
        if "".join(self.tokens) != re.sub(r"\s", "", text):
            row.fail(f"`{text}` is not a condition")

    def take(self, expected: str | None = None) -> str:
        token = self.tokens.pop(0) if self.tokens else "the end"
        if expected and token != expected:
            self.row.fail(f"`{expected}` is expected in `{self.text}`, not `{token}`")
        return token

    def conditions(self) -> list[Steps]:
        """One tuple of steps per comparison: `0 <= a < b` has two."""
        if len(self.tokens) > 1 and self.tokens[0] in PREDICATES and self.tokens[1] == "(":
            found = [self.predicate()]
        else:
            left = self.sum()
            found = []
            while self.tokens and self.tokens[0] in COMPARISONS:
                sign, right = self.take(), self.sum()
                operands = right + left if sign in (">", ">=") else left + right
                found.append((*operands, Step(STEP_OF[sign.replace(">", "<")])))
                left = right
        if self.tokens or not found:
            self.row.fail(f"`{self.text}` is not a condition")
        return found

    def predicate(self) -> Steps:
        word = self.take()
        self.take("(")
        parts = self.arguments()

        def tensor(name: str) -> str:
            return tensor_name(self.row, name, self.scope)

        readers: dict[str, Callable[..., Steps]] = {
            "axis": lambda dim, a: (*self.number(dim), Step("kAxis", (tensor(a),))),
            "axes": lambda dims, a: (Step("kAxes", (self.array(dims), tensor(a))),),
            "same": lambda a, b: (Step("kSame", (tensor(a), tensor(b))),),
            "same_but": lambda dim, a, b: (*self.number(dim), Step("kSameBut", (tensor(a), tensor(b)))),
            "broadcasts": lambda a, b: (Step("kBroadcasts", (tensor(a), tensor(b))),),
            "reduced": lambda a, dims, keep, b: self.reduced(tensor(a), dims, keep, tensor(b)),
            "dense": lambda a: (Step("kDense", (tensor(a),)),),
            "given": lambda a: (Step("kGiven", (tensor_name(self.row, a, self.scope, allow_list=True),)),),
            "by_columns": lambda a: (Step("kByColumns", (tensor(a),)),),
            "alike": lambda a: (Step("kAlike", (tensor_name(self.row, a, self.scope, allow_list=True),)),),
        }
        try:
            return readers[word](*parts)
        except TypeError:
            return self.row.fail(f"`{self.text}`: the number of arguments is wrong")

    def reduced(self, source: str, dims: str, keep: str, target: str) -> Steps:
        given = self.scope.get(dims)
        if given is not None and is_array(given):
            return (*self.number(keep), Step("kReduced", (source, dims, target)))
        return (*self.number(dims), *self.number(keep), Step("kReducedOne", (source, target)))

    def arguments(self) -> list[str]:
        """Names and numbers up to the closing parenthesis, as text."""
        parts, depth = [""], 0
        while True:
            token = self.take()
            if token == "the end":
                self.row.fail(f"a parenthesis of `{self.text}` is not closed")
            depth += {"(": 1, ")": -1}.get(token, 0)
            if depth < 0:
                return parts
            if token == "," and depth == 0:
                parts.append("")
            else:
                parts[-1] += token

    def number(self, text: str) -> Steps:
        reader = Reader(self.row, text, self.scope, self.letters)
        steps = reader.sum()
        if reader.tokens:
            self.row.fail(f"`{text}` in `{self.text}` is not a number")
        return steps

    def array(self, name: str) -> str:
        given = self.scope.get(name)
        if given is None or not is_array(given):
            self.row.fail(f"`{name}` in `{self.text}` is no array")
        return name

    def sum(self) -> Steps:
        steps = self.product()
        while self.tokens and self.tokens[0] in "+-":
            sign = self.take()
            steps = (*steps, *self.product(), Step(OPERATORS[sign]))
        return steps

    def product(self) -> Steps:
        steps = self.atom()
        while self.tokens and self.tokens[0] in "*/":
            sign = self.take()
            steps = (*steps, *self.atom(), Step(OPERATORS[sign]))
        return steps

    def atom(self) -> Steps:
        token = self.take()
        if token == "-":
            return (Step("kLiteral"), *self.atom(), Step("kSubtract"))
        if token == "(":
            steps = self.sum()
            self.take(")")
            return steps
        if token.isdigit():
            return (Step("kLiteral", value=int(token)),)
        if self.tokens and self.tokens[0] == "(":
            return self.function(token)
        if token in self.letters:
            return (Step("kLetter", value=token),)
        given = self.scope.get(token)
        if given is None or given.is_list or given.base not in ("int", "int8", "int32", "uint64", "bool", "Scalar"):
            self.row.fail(f"`{token}` in `{self.text}` is no integer parameter, letter or number")
        return (Step("kInteger", (token,)),)

    def function(self, word: str) -> Steps:
        self.take("(")
        parts = self.arguments()
        given = self.scope.get(parts[0])
        is_tensor = given is not None and given.base == "Tensor" and not given.is_list
        if word == "min" and len(parts) == 2:
            return (*self.number(parts[0]), *self.number(parts[1]), Step("kMin"))
        if word == "rank" and len(parts) == 1 and is_tensor:
            return (Step("kRank", (parts[0],)),)
        if word == "size" and len(parts) == 2 and is_tensor:
            return (*self.number(parts[1]), Step("kSize", (parts[0],)))
        if word == "numel" and len(parts) == 1 and (is_tensor or (given is not None and is_array(given))):
            return (Step("kNumel", (parts[0],)),)
        if word == "count" and len(parts) == 1 and given is not None and given.is_list:
            return (Step("kCount", (parts[0],)),)
        if word == "least" and len(parts) == 1:
            return (Step("kLeast", (self.array(parts[0]),)),)
        if word == "item" and len(parts) == 2:
            return (*self.number(parts[1]), Step("kItem", (self.array(parts[0]),)))
        return self.row.fail(f"`{word}({', '.join(parts)})` in `{self.text}` is not known, or its arguments are of another kind")
