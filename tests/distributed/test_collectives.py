"""Compares every collective with a model in one process: operations, dtypes, sizes, groups, world sizes, transports.

The quick run tests a part of the combinations. --full tests every combination of operation, dtype, size and layout of groups for
hccl at 2 and 4 ranks. For every other mode and world size it tests these pairs: operation and dtype, operation and size, dtype
and size, operation and layout, operation and reduction (covering.py).

A test covers one operation; its ranks go through dtypes and sizes. `gloo` runs the same calls on CPU tensors, to check the tests
themselves.
"""

import itertools

import pytest
import torch

from tests.distributed.covering import LARGE, NAMES, SIZES, choices, distinct, turns, whole
from tests.distributed.layouts import LAYOUTS, group
from tests.distributed.modes import DTYPES, EVERY_DTYPE, MODES, REDUCTIONS, setting
from tests.distributed.operations import OPERATIONS, Call, run

QUICK_REDUCTIONS = ("sum", "max")
REDUCING = [name for name in NAMES if OPERATIONS[name].reduces]


def thinned(name, dtypes):
    """(dtype, size) pairs of the quick run: all sizes of float32, and one size of every other dtype, in turn."""
    pairs = [(torch.float32, size) for size in SIZES]
    for number, dtype in enumerate(dtypes):
        if dtype != torch.float32:
            pairs.append((dtype, SIZES[(number + NAMES.index(name)) % len(SIZES)]))
    return pairs


def go_through(rank, name, cases):
    """Runs on a rank. Makes all calls of a test in which the rank takes part. Returns their number."""
    operation = OPERATIONS[name]
    groups = {layout: group(rank, layout) for layout in dict.fromkeys(case.layout for case in cases)}
    done = 0
    for case in cases:
        mine = groups[case.layout]
        if mine is None or (mine[1:] == (0, 1) and not operation.alone):
            continue
        call = Call(*mine, rank.device, case.dtype, case.count, case.reduction)
        call.root, call.asynchronous, call.seed = case.root % call.size, case.asynchronous, case.seed
        run(operation, call)
        done += 1
    return done


def carry_out(rank_sets, mode, world, name, cases):
    lacks = MODES[mode].lacks
    if name in lacks:
        pytest.skip(f"not an operation of {mode}")
    cases = [case for case in cases if case.dtype not in lacks and case.reduction not in lacks]
    done = rank_sets.get(setting(mode, world)).run(go_through, name, cases)
    assert any(done) or not OPERATIONS[name].alone


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_four_ranks(rank_sets, layout, name):
    carry_out(rank_sets, "hccl", 4, name, whole(name, layout, thinned(name, DTYPES), QUICK_REDUCTIONS))


@pytest.mark.parametrize("name", NAMES)
def test_two_ranks(rank_sets, name):
    pairs = list(itertools.product((torch.float32, torch.float16, torch.int64), SIZES))
    carry_out(rank_sets, "hccl", 2, name, whole(name, "world", pairs, QUICK_REDUCTIONS))


@pytest.mark.parametrize("name", NAMES)
def test_eight_ranks(rank_sets, name):
    pairs = [(torch.float32, 1237), (torch.bfloat16, 20011)]
    carry_out(rank_sets, "hccl", 8, name, whole(name, "world", pairs, ("sum",)))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("mode", ["tcp", "staged", "gloo"])
def test_other_ways_of_the_data(rank_sets, mode, name):
    """TCP between ranks of one host, copies through shared memory, and gloo on the CPU, which checks the model."""
    carry_out(rank_sets, mode, 2, name, whole(name, "world", thinned(name, DTYPES), QUICK_REDUCTIONS))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("mode", ["hosts", "nodes"])
def test_two_hosts(rank_sets, mode, name):
    """Four ranks: two pairs with shared memory, and TCP between the pairs. In the mode nodes, each pair has its own network."""
    carry_out(rank_sets, mode, 4, name, whole(name, "world", [(torch.float32, size) for size in SIZES], ("sum",)))


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode not in ("hosts", "nodes")])
@pytest.mark.parametrize("name", REDUCING)
def test_reductions(rank_sets, mode, name):
    pairs = [(dtype, 1237) for dtype in (torch.float32, torch.bfloat16, torch.int32, torch.bool)]
    carry_out(rank_sets, mode, 2, name, whole(name, "world", pairs, REDUCTIONS))


WORLDS = (2, 3, 4, 8)
WHOLE = [("hccl", 2), ("hccl", 4)]
# Two ranks of the mode "hosts" are on one host.
TURNS = [way for way in itertools.product(MODES, WORLDS) if way not in [*WHOLE, ("hosts", 2)]]


@pytest.mark.full
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("world", "layout"), [(world, layout) for mode, world in WHOLE for layout in distinct(mode, world)])
def test_every_combination(rank_sets, world, layout, name):
    pairs = list(itertools.product(EVERY_DTYPE, (*SIZES, LARGE)))
    carry_out(rank_sets, "hccl", world, name, whole(name, layout, pairs, QUICK_REDUCTIONS))


@pytest.mark.full
@pytest.mark.parametrize("name", REDUCING)
@pytest.mark.parametrize("world", [world for _, world in WHOLE])
def test_every_reduction(rank_sets, world, name):
    pairs = [(dtype, size) for dtype in EVERY_DTYPE for size in (1237, 20011)]
    carry_out(rank_sets, "hccl", world, name, whole(name, "world", pairs, REDUCTIONS))


@pytest.mark.full
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("mode", "world"), TURNS)
def test_every_pair(rank_sets, mode, world, name):
    carry_out(rank_sets, mode, world, name, turns(name, mode, world))


PAIRS = [*itertools.product(["operation"], ["dtype", "size", "layout", "reduction"]), ("dtype", "size")]


@pytest.mark.parametrize(("mode", "world"), TURNS)
def test_turns_have_every_pair(mode, world):
    lacks = MODES[mode].lacks
    calls = [choices(name, case) for name in NAMES if name not in lacks for case in turns(name, mode, world)]
    values = {"dtype": EVERY_DTYPE, "size": (*SIZES, LARGE), "layout": list(distinct(mode, world)), "reduction": REDUCTIONS}
    for one, other in PAIRS:
        names = REDUCING if other == "reduction" else NAMES
        wanted = itertools.product(names if one == "operation" else values[one], values[other])
        wanted = {pair for pair in wanted if not lacks.intersection(pair)}
        assert wanted <= {(call[one], call[other]) for call in calls}, (one, other)
