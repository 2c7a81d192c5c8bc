"""Chooses the calls of the tests of collectives.

    whole("all_reduce", "halves", DTYPES, SIZES, ("sum", "max"))     every combination
    turns("all_reduce", "tcp", 8)                                    every pair, see below

`turns` makes one call for each dtype. Each call takes the next size, layout, reduction and root; the first ones differ between
operations. So the calls of all operations contain every pair of operation and dtype, operation and size, dtype and size,
operation and layout, and operation and reduction."""

import collections
from dataclasses import dataclass

import torch

from tests.distributed.layouts import LAYOUTS, members
from tests.distributed.modes import EVERY_DTYPE, MODES, REDUCTIONS, allowed
from tests.distributed.operations import OPERATIONS

NAMES = list(OPERATIONS)
SIZES = (0, 1, 1237, 20011)
LARGE = (1 << 18) + 5
LARGE_BYTES = (1 << 20) + 20


@dataclass(frozen=True)
class Case:
    """A call, with the same values on all ranks. `root` is taken modulo the size of the group. `large`: `count` comes from
    LARGE."""

    layout: str
    dtype: torch.dtype
    count: int
    reduction: str = "sum"
    root: int = 0
    asynchronous: bool = False
    seed: int = 0
    large: bool = False


def large(dtype):
    """The number of elements of a large tensor: more than any size at which libhccl changes its algorithm, and at most a MiB."""
    return min(LARGE, LARGE_BYTES // dtype.itemsize)


def sized(number, layout, dtype, size, reduction):
    """Makes a case. `number` decides the root, the way to wait and the seed. A size of LARGE depends on the dtype."""
    is_large = size == LARGE
    count = large(dtype) if is_large else size
    return Case(layout, dtype, count, reduction, -(number // 4 % 2), number // 2 % 2 == 1, number, is_large)


def whole(name, layout, pairs, reductions):
    """Each combination of dtype, size and reduction. A barrier has none of them."""
    operation = OPERATIONS[name]
    cases = []
    for dtype, size in pairs[:2] if name == "barrier" else pairs:
        for reduction in [each for each in reductions if allowed(each, dtype)] if operation.reduces else ["sum"]:
            cases.append(sized(len(cases), layout, dtype, size, reduction))
    return cases


def turns(name, mode, world):
    """One call for each dtype, with the next size, layout and reduction."""
    start, lacks = NAMES.index(name), MODES[mode].lacks
    layouts, sizes = list(distinct(mode, world)), (*SIZES, LARGE)
    reductions = REDUCTIONS[start % len(REDUCTIONS) :] + REDUCTIONS[: start % len(REDUCTIONS)]
    used, cases = collections.Counter(), []
    for number, dtype in enumerate(dtype for dtype in EVERY_DTYPE if dtype not in lacks):
        possible = [each for each in reductions if each not in lacks and allowed(each, dtype)]
        reduction = min(possible, key=used.__getitem__) if OPERATIONS[name].reduces else "sum"
        used[reduction] += 1
        layout, size = layouts[(start - number) % len(layouts)], sizes[(start + number) % len(sizes)]
        cases.append(sized(start + number, layout, dtype, size, reduction))
    return cases


def distinct(mode, world):
    """The layouts that differ for this number of ranks. Groups of one rank move no data, so one mode is enough. gloo only checks
    the model."""
    seen = []
    for layout in LAYOUTS:
        groups = members(layout, world)
        is_alone = all(len(ranks) == 1 for ranks in groups)
        if groups not in seen and (not is_alone or mode == "hccl") and (mode != "gloo" or layout == "world"):
            seen.append(groups)
            yield layout


def choices(name, case):
    """The choices of a case. A large size counts as one choice for all dtypes."""
    size = LARGE if case.large else case.count
    return {"operation": name, "dtype": case.dtype, "size": size, "layout": case.layout, "reduction": case.reduction}
