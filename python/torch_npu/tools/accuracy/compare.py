"""Compares two runs, operator by operator and tensor by tensor.

    result = compare(mine, golden, Options())
    result.first            # the first operator whose inputs agree and whose outputs do not, or None
    result.agrees

The state of an operator: `pass`; `warning`: an output is less exact than usual; `error`: an output is wrong though the inputs
agree, so the operator itself is at fault; `inherited`: an output is wrong, and so was an input; `unmatched`: only one run has it.
The inputs of a backward node are its gradients only. Its output is `inherited` if a forward operator before it was
wrong, too, because the node may use saved results of that.
An operator that draws random numbers is `warning` if its outputs differ, unless only single elements do.
"""

from __future__ import annotations

import collections
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from . import metrics
from .align import align
from .names import IGNORED_ARGUMENTS, canonical_argument, is_random
from .runs import Op, Run, Value
from .verdict import Judgement, coarser, judge

# Pairs of data types that two devices may use for the same tensor.
_SAME_KIND = (
    {"float32", "float16", "bfloat16", "float64", "float8_e4m3fn", "float8_e5m2"},
    {"int32", "int64"},
    {"complex64", "complex128", "complex32"},
)
_FEW = 0.01
_FEW_DRAWN = 1 / 500  # of the elements; other draws differ in far more
_RANDOM = "the operator draws random numbers, so its outputs cannot agree; switch it off to compare what follows"
_NODE = re.compile(r"[A-Z]\w*Backward\d*")
_NUMBERED_NODE = re.compile(r"[A-Z]\w*Backward\d+")  # in dump files of operators: the device has a function ThresholdBackward
Measure = Callable[[np.ndarray, np.ndarray], tuple[str, str]]  # of a user's script


@dataclass
class Options:
    algorithms: Sequence[str] = tuple(metrics.ALGORITHMS)
    custom: dict[str, Measure] = field(default_factory=dict)
    largest: int = 0  # the number of compared elements of each tensor; 0: all
    chosen: Callable[[int, int], bool] = lambda place, count: True  # place: number of an operator, from 1; count: all operators


@dataclass
class Row:
    """The comparison of two values of a pair of operators, or a value without a partner."""

    side: str  # "input" or "output"
    place: int
    mine: Value | None
    golden: Value | None
    numbers: dict[str, str]
    reason: str
    judgement: Judgement | None = None

    @property
    def state(self) -> str:
        return self.judgement.state if self.judgement else "error"


@dataclass
class Item:
    """The comparison of a pair of operators, or an operator without a partner."""

    mine: Op | None
    golden: Op | None
    rows: list[Row]
    after_wrong: bool = False  # true for a backward node if an earlier forward operator has a wrong output

    @property
    def op(self) -> Op:
        known = self.mine or self.golden
        assert known is not None
        return known

    @property
    def worst(self) -> float:
        return max((row.judgement.units for row in self.rows if row.judgement and row.side == "output"), default=0.0)

    @property
    def state(self) -> str:
        if self.mine is None or self.golden is None:
            return "unmatched"
        outputs = [row.state for row in self.rows if row.side == "output"]
        if "error" not in outputs:
            return "warning" if "warning" in outputs else "pass"
        inputs_agree = all(row.state != "error" for row in self.rows if row.side == "input")
        return "error" if inputs_agree and not self.after_wrong else "inherited"


@dataclass
class Result:
    mine: Run
    golden: Run
    items: list[Item]  # in the order of `mine`, then the operators that only the golden run has

    @property
    def first(self) -> Item | None:
        wrong = [item for item in self.items if item.state == "error"]
        return min(wrong, key=lambda item: item.op.number, default=None) or self._first_inherited()

    def _first_inherited(self) -> Item | None:
        """The first operator with wrong inputs. Without an `error` before it, the inputs of the program already differ."""
        return next((item for item in self.items if item.state == "inherited"), None)

    @property
    def counts(self) -> dict[str, int]:
        found = collections.Counter(item.state for item in self.items)
        return {state: found[state] for state in ("pass", "warning", "error", "inherited", "unmatched")}

    @property
    def agrees(self) -> bool:
        """Whether the runs agree. Operators without a partner are ignored, because devices decompose operators differently."""
        return not self.counts["error"] and not self.counts["inherited"] and any(item.mine and item.golden for item in self.items)


def compare(mine: Run, golden: Run, options: Options) -> Result:
    pairs, only_mine, only_golden = align(mine.ops, golden.ops)
    matched = sorted([*pairs, *((op, None) for op in only_mine)], key=lambda pair: pair[0].number)
    chosen = [pair for place, pair in enumerate(matched, 1) if options.chosen(place, len(matched))]
    items = [Item(left, right, _relaxed(list(_rows(left, right, options))) if right else []) for left, right in chosen]
    for item in items:
        if is_random(item.op.kind or item.op.name):
            _excuse(item.rows)
    _mark_nodes(items, _NODE if mine.format == "h5" else _NUMBERED_NODE)
    return Result(mine, golden, items + [Item(None, op, []) for op in only_golden])


def _mark_nodes(items: list[Item], node: re.Pattern[str]) -> None:
    wrong = False
    for item in items:
        if node.fullmatch(item.op.kind or item.op.name):
            item.after_wrong = wrong
        elif item.state in ("error", "inherited"):
            wrong = True


def _excuse(rows: list[Row]) -> None:
    for row in rows:
        if (
            row.side == "output"
            and row.judgement
            and row.state == "error"
            and row.judgement.units < np.inf
            and not _drew_alike(row)
        ):
            row.reason = _RANDOM
            row.judgement = Judgement("warning", row.judgement.units, _RANDOM)


def _drew_alike(row: Row) -> bool:
    """Whether both runs drew the same numbers, because only single elements differ. Those are wrong."""
    assert row.mine is not None and row.golden is not None
    mine, golden = row.mine.load().reshape(-1), row.golden.load().reshape(-1)
    return bool(0 < np.count_nonzero(mine != golden) <= _FEW_DRAWN * mine.size)


def _relaxed(rows: list[Row]) -> list[Row]:
    """Accepts a few different integers if the inputs agree without being equal. An example is the index of one of two almost
    equal maxima."""
    inputs = [row.judgement for row in rows if row.side == "input" and row.judgement]
    if not any(found.units for found in inputs) or any(found.state == "error" for found in inputs):
        return rows
    for row in rows:
        found = row.judgement
        if row.side == "input" or found is None or found.state != "error" or not 0 < found.units < np.inf:
            continue
        assert row.mine is not None and row.golden is not None
        size = int(np.prod(row.mine.shape, dtype=np.int64))
        if coarser(row.mine.type, row.golden.type) is None and found.units <= max(1, _FEW * size):
            row.reason += "; the inputs also differ slightly"
            row.judgement = Judgement("warning", found.units, row.reason)
    return rows


def _rows(mine: Op, golden: Op, options: Options) -> Iterator[Row]:
    for side, left, right in (("input", mine.inputs, golden.inputs), ("output", mine.outputs, golden.outputs)):
        if side == "input" and not (left and right):
            continue  # the dump may hold only outputs
        for place, (one, other) in enumerate(_partners(left, right)):
            yield _row(side, place, one, other, options)


def _partners(left: Sequence[Value], right: Sequence[Value]) -> list[tuple[Value | None, Value | None]]:
    """Pairs values by their names, and values without a common name by their order."""
    mine, golden = ([value for value in side if _counts(value)] for side in (left, right))
    by_name = {canonical_argument(value.name): value for value in golden}
    pairs = [(value, by_name.get(canonical_argument(value.name))) for value in mine]
    used = {id(other) for _, other in pairs}
    spare = iter([value for value in golden if id(value) not in used])
    return [(one, other or next(spare, None)) for one, other in pairs]


def _counts(value: Value) -> bool:
    return value.is_tensor and canonical_argument(value.name) not in IGNORED_ARGUMENTS


def _row(side: str, place: int, one: Value | None, other: Value | None, options: Options) -> Row:
    nothing = dict.fromkeys([*options.algorithms, *options.custom], metrics.NAN)
    if one is None or other is None:
        present = one or other
        assert present is not None
        reason = f"only {'NPUDump' if one else 'GroundTruth'} has it"
        return Row(side, place, one, other, nothing, reason, Judgement("warning", 0.0, reason))
    if reason := _why_not(one, other):
        return Row(side, place, one, other, nothing, reason, Judgement("error", np.inf, reason))
    left, right = one.load().reshape(-1), other.load().reshape(-1)
    if options.largest:
        left, right = left[: options.largest], right[: options.largest]
    numbers, reasons = metrics.measure(left, right, options.algorithms)
    for name, measure in options.custom.items():
        numbers[name], told = measure(left, right)
        reasons += [told] if told else []
    judgement = judge(left, right, one.type, other.type)
    return Row(side, place, one, other, numbers, "; ".join(filter(None, [*reasons, judgement.reason])), judgement)


def _why_not(one: Value, other: Value) -> str:
    if one.type != other.type and not any({one.type, other.type} <= kinds for kinds in _SAME_KIND):
        return f"the data types differ: {one.type} and {other.type}"
    size, golden_size = (int(np.prod(value.shape, dtype=np.int64)) for value in (one, other))
    if size != golden_size:
        return f"the shapes differ: {list(one.shape)} and {list(other.shape)}"
    return ""
