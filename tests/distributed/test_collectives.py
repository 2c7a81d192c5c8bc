"""Every collective gives what a model in one process gives: operations, dtypes, sizes, groups, world sizes, ways of the data.

A test is one operation in one layout of groups; its ranks go through dtypes and sizes. The quick run takes a part of them, --full
takes all. `gloo` runs the same calls on CPU tensors, to check the tests themselves.
"""

import pytest
import torch

from tests.distributed.layouts import LAYOUTS, group, members
from tests.distributed.modes import DTYPES, EVERY_DTYPE, MODES, REDUCTIONS, allowed, setting
from tests.distributed.operations import OPERATIONS, Call, run

SIZES = (0, 1, 1237, 20011)
LARGE = (1 << 18) + 5
LARGE_DTYPES = (torch.float32, torch.bfloat16, torch.int8)


def thinned(operation_number, dtypes):
    """(dtype, size) pairs of the quick run: all sizes of float32, and one size of every other dtype, in turn."""
    pairs = [(torch.float32, size) for size in SIZES]
    for number, dtype in enumerate(dtypes):
        if dtype != torch.float32:
            pairs.append((dtype, SIZES[(number + operation_number) % len(SIZES)]))
    return pairs


def everything():
    pairs = [(dtype, size) for dtype in EVERY_DTYPE for size in SIZES]
    return pairs + [(dtype, LARGE) for dtype in LARGE_DTYPES]


def calls(group, rank, size, device, pairs, reductions, rooted):
    """The calls of one test, with other seeds, roots and ways to wait for each."""
    number = 0
    for dtype, count in pairs:
        for reduction in [each for each in reductions if allowed(each, dtype)]:
            for root in {0, size - 1} if rooted else {0}:
                number += 1
                options = {"reduction": reduction, "root": root, "asynchronous": number % 2 == 0, "seed": number}
                yield Call(group, rank, size, device, dtype, count, **options)


def go_through(rank, layout, name, pairs, reductions):
    """Runs on a rank: all calls of a test."""
    mine = group(rank, layout)
    operation = OPERATIONS[name]
    if mine is None or (mine[1:] == (0, 1) and not operation.alone):
        return 0
    reductions = reductions if operation.reduces else ("sum",)
    done = 0
    for call in calls(*mine, rank.device, pairs, reductions, operation.rooted):
        run(operation, call)
        done += 1
    return done


def collectives(rank_sets, mode, world, layout, name, pairs, reductions):
    lacks = MODES[mode].lacks
    if name in lacks:
        pytest.skip(f"not an operation of {mode}")
    pairs = [(dtype, size) for dtype, size in pairs if dtype not in lacks]
    reductions = [each for each in reductions if each not in lacks]
    done = rank_sets.get(setting(mode, world)).run(go_through, layout, name, pairs, reductions)
    assert any(done) or not OPERATIONS[name].alone


NAMES = list(OPERATIONS)
QUICK_REDUCTIONS = ("sum", "max")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_four_ranks(rank_sets, layout, name):
    collectives(rank_sets, "hccl", 4, layout, name, thinned(NAMES.index(name), DTYPES), QUICK_REDUCTIONS)


@pytest.mark.parametrize("name", NAMES)
def test_two_ranks(rank_sets, name):
    pairs = [(dtype, size) for dtype in (torch.float32, torch.float16, torch.int64) for size in SIZES]
    collectives(rank_sets, "hccl", 2, "world", name, pairs, QUICK_REDUCTIONS)


@pytest.mark.parametrize("name", NAMES)
def test_eight_ranks(rank_sets, name):
    pairs = [(torch.float32, 1237), (torch.bfloat16, 20011)]
    collectives(rank_sets, "hccl", 8, "world", name, pairs, ("sum",))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("mode", ["tcp", "staged", "gloo"])
def test_other_ways_of_the_data(rank_sets, mode, name):
    """TCP between ranks of one host, copies through shared memory, and gloo on the CPU, which checks the model."""
    collectives(rank_sets, mode, 2, "world", name, thinned(NAMES.index(name), DTYPES), QUICK_REDUCTIONS)


@pytest.mark.parametrize("name", NAMES)
def test_two_hosts(rank_sets, name):
    """Four ranks: two pairs with shared memory, TCP between the pairs."""
    collectives(rank_sets, "hosts", 4, "world", name, [(torch.float32, size) for size in SIZES], ("sum",))


@pytest.mark.parametrize("name", NAMES)
def test_two_nodes(rank_sets, name):
    """The same with two networks."""
    collectives(rank_sets, "nodes", 4, "world", name, [(torch.float32, size) for size in SIZES], ("sum",))


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode not in ("hosts", "nodes")])
@pytest.mark.parametrize("name", [name for name in NAMES if OPERATIONS[name].reduces])
def test_reductions(rank_sets, mode, name):
    pairs = [(dtype, 1237) for dtype in (torch.float32, torch.bfloat16, torch.int32, torch.bool)]
    collectives(rank_sets, mode, 2, "world", name, pairs, REDUCTIONS)


WORLDS = (2, 3, 4, 8)


def distinct(mode, world):
    """Layouts that differ in this world. Groups of one rank move nothing, so one mode suffices. gloo only checks the model."""
    seen = []
    for layout in LAYOUTS:
        groups = members(layout, world)
        is_alone = all(len(ranks) == 1 for ranks in groups)
        if groups not in seen and (not is_alone or mode == "hccl") and (mode != "gloo" or layout == "world"):
            seen.append(groups)
            yield layout


# Two ranks of the mode "hosts" are on one host.
WAYS = [(mode, world) for mode in MODES for world in WORLDS if (mode, world) != ("hosts", 2)]
EVERY = [(mode, world, layout) for mode, world in WAYS for layout in distinct(mode, world)]


@pytest.mark.full
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("mode", "world", "layout"), EVERY)
def test_all_sizes_and_dtypes(rank_sets, mode, world, layout, name):
    collectives(rank_sets, mode, world, layout, name, everything(), QUICK_REDUCTIONS)


@pytest.mark.full
@pytest.mark.parametrize("name", [name for name in NAMES if OPERATIONS[name].reduces])
@pytest.mark.parametrize(("mode", "world"), WAYS)
def test_all_reductions(rank_sets, mode, world, name):
    pairs = [(dtype, size) for dtype in EVERY_DTYPE for size in (1, 1237, 20011)]
    collectives(rank_sets, mode, world, "world", name, pairs, REDUCTIONS)
