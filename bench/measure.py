"""Ratios of npu to CPU: both run in one process, in blocks in the order A B B A, so that a slow phase of the machine affects
both."""

import gc
import itertools
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


def _block(job, count, synchronize, calling_thread):
    calls = itertools.repeat(None, count)
    begin = time.perf_counter()
    for _ in calls:
        job()
    returned = time.perf_counter()
    synchronize()
    return ((returned if calling_thread else time.perf_counter()) - begin) / count


def _calls_per_block(job, synchronize):
    count = 1
    while True:
        seconds = _block(job, count, synchronize, False) * count
        if seconds > BLOCK_SECONDS / 2 or count >= 1 << 14:
            return max(1, round(count * BLOCK_SECONDS / max(seconds, BLOCK_SECONDS / 2)))
        count *= 2


def compare(case, rounds, warm_up=20):
    """The outcome of `rounds` rounds after `warm_up` calls on each side."""
    cpu, npu = case.make("cpu"), case.make("npu")
    idle = lambda: None  # noqa: E731
    for job, wait in ((cpu, idle), (npu, torch.npu.synchronize)):
        for _ in range(warm_up):
            job()
        wait()
    count = _calls_per_block(cpu, idle)
    _block(npu, count, torch.npu.synchronize, False)
    pairs = []
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):
            first = _block(cpu, count, idle, False)
            npus = [_block(npu, count, torch.npu.synchronize, case.calling_thread) for _ in range(2)]
            cpus = [first, _block(cpu, count, idle, False)]
            pairs.append((statistics.mean(npus), statistics.mean(cpus)))
    finally:
        gc.enable()
    return Outcome(
        ratio=statistics.median(npu / cpu for npu, cpu in pairs),
        cpu_us=statistics.median(cpu for _, cpu in pairs) * 1e6,
        npu_us=statistics.median(npu for npu, _ in pairs) * 1e6,
    )
