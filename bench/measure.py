"""Ratios of npu to CPU: both run in one process, in blocks in the order A B B A, so that a slow phase of the machine affects
both."""

import gc
import itertools
import json
import statistics
import time
from dataclasses import dataclass

import torch

BLOCK_SECONDS = 0.004


@dataclass(frozen=True)
class Case:
    """One comparison. `make` returns, for a device, a function that does the job once.

    The time of a block ends when the device has finished; with `calling_thread`, when the calls have returned.
    """

    name: str
    make: object
    bar: float
    stretch: float
    calling_thread: bool = False


@dataclass(frozen=True)
class Outcome:
    ratio: float  # the median over all rounds
    cpu_us: float
    npu_us: float


@dataclass(frozen=True)
class Side:
    """One of the two sides of a comparison: a job, and the function that waits for its end."""

    job: object
    wait: object


def _idle():
    pass


def _block(side, count, calling_thread=False, clock=time.perf_counter):
    calls = itertools.repeat(None, count)
    begin = clock()
    for _ in calls:
        side.job()
    returned = clock()
    side.wait()
    return ((returned if calling_thread else clock()) - begin) / count


def _calls_per_block(side):
    count = 1
    while True:
        seconds = _block(side, count) * count
        if seconds > BLOCK_SECONDS / 2 or count >= 1 << 14:
            return max(1, round(count * BLOCK_SECONDS / max(seconds, BLOCK_SECONDS / 2)))
        count *= 2


def interleave(base, other, rounds, warm_up=20, calling_thread=False, clock=time.perf_counter):
    """Seconds of a job on both sides, (other, base), for each of `rounds` rounds after `warm_up` jobs on each side."""
    for side in (base, other):
        for _ in range(warm_up):
            side.job()
        side.wait()
    count = _calls_per_block(base)
    _block(other, count)
    pairs = []
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):
            first = _block(base, count, clock=clock)
            others = [_block(other, count, calling_thread, clock) for _ in range(2)]
            pairs.append((statistics.mean(others), statistics.mean([first, _block(base, count, clock=clock)])))
    finally:
        gc.enable()
    return pairs


def compare(case, rounds, warm_up=20):
    """The outcome of `rounds` rounds after `warm_up` calls on each side."""
    cpu, npu = Side(case.make("cpu"), _idle), Side(case.make("npu"), torch.npu.synchronize)
    pairs = interleave(cpu, npu, rounds, warm_up, case.calling_thread)
    return Outcome(
        ratio=statistics.median(npu / cpu for npu, cpu in pairs),
        cpu_us=statistics.median(cpu for _, cpu in pairs) * 1e6,
        npu_us=statistics.median(npu for npu, _ in pairs) * 1e6,
    )


def save(results, path):
    """Writes the results to a JSON file, if there is a path."""
    if path:
        with open(path, "w") as file:
            json.dump(results, file, indent=1)
