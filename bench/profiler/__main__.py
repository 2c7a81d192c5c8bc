"""The cost of records of the device: compares the same work with and without recording, in one process.

    scripts/bench profiler                          every case
    scripts/bench profiler --case 'ResNet-18'       the cases whose names begin with it
    scripts/bench profiler --rounds 60              more rounds
    scripts/bench profiler --clock thread           time of the launching thread, or with cpu of all threads: for a loaded machine
    scripts/bench profiler --json results.json      also writes the numbers there

Blocks alternate in the order A B B A. `off / off` compares two blocks without records and shows the noise of the run. `records`
keeps records in memory, as torch_npu.profiler does. `PROF_*` also writes them while the program runs, as torch.npu.profile does.
Recording starts before a block and stops after it, outside of the measured time. The thread that writes runs during the block.
The exit status is 1 if a bar is missed: 1 us for an operator, 5 % for a step.
"""

import argparse
import gc
import itertools
import shutil
import statistics
import sys
import tempfile
import time

import torch
from torch_npu import _C
from torch_npu.profiler import _records

from bench.measure import save
from bench.models.__main__ import _build, loss_of

CLOCKS = {"wall": time.perf_counter, "thread": time.thread_time, "cpu": time.process_time}
OPERATOR_BAR_US, STEP_BAR = 1.0, 1.05


def _nothing():
    return lambda: None


def _in_memory():
    session = _records.start(host_calls=True, shapes=True)
    return lambda: _C._profiler_stop(session)


def _in_folder():
    folder = tempfile.mkdtemp()
    torch.npu.prof_init(folder)
    torch.npu.prof_start()

    def stop():
        torch.npu.prof_finalize()
        shutil.rmtree(folder)

    return stop


KINDS = {"off / off": _nothing, "records / off": _in_memory, "PROF_* / off": _in_folder}


def add():
    x, y, out = torch.ones(4, device="npu"), torch.ones(4, device="npu"), torch.empty(4, device="npu")
    return (lambda: torch.add(x, y, out=out)), 2000


def resnet18_step():
    model, inputs, targets, optimizer = _build("ResNet-18", "npu")

    def step():
        optimizer.zero_grad()
        loss_of("ResNet-18", model(inputs), targets).backward()
        optimizer.step()

    return step, 1


def _block(job, count, begin, clock):
    """Seconds of a job."""
    calls = itertools.repeat(None, count)
    stop = begin()
    start = clock()
    for _ in calls:
        job()
    torch.npu.synchronize()
    seconds = (clock() - start) / count
    stop()
    return seconds


def measure(job, count, begin, rounds, clock):
    """Pairs of seconds (recorded, not recorded), one of each round."""
    for kind in (_nothing, begin):
        _block(job, max(count // 4, 3), kind, clock)
    pairs = []
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):
            base = [_block(job, count, _nothing, clock)]
            recorded = [_block(job, count, begin, clock) for _ in range(2)]
            base.append(_block(job, count, _nothing, clock))
            pairs.append((statistics.mean(recorded), statistics.mean(base)))
    finally:
        gc.enable()
    return pairs


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", default="", help="beginning of the names of the cases")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--clock", choices=list(CLOCKS), default="wall")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json")
    return parser.parse_args()


def main():
    options = parse()
    torch.set_num_threads(options.threads)
    results = []
    print(f"{'case':36} {'off us':>10} {'on us':>10} {'more us':>8} {'ratio':>6} {'bar':>8}")
    for name, make in (("operator: add 4", add), ("ResNet-18 training step", resnet18_step)):
        for kind, begin in KINDS.items():
            case = f"{name}, {kind}"
            if not case.startswith(options.case):
                continue
            pairs = measure(*make(), begin, options.rounds, CLOCKS[options.clock])
            base = statistics.median(off for _, off in pairs) * 1e6
            more = statistics.median(on - off for on, off in pairs) * 1e6
            ratio = statistics.median(on / off for on, off in pairs)
            is_operator = make is add
            missed = kind != "off / off" and (more > OPERATOR_BAR_US if is_operator else ratio > STEP_BAR)
            bar = "" if kind == "off / off" else f"{OPERATOR_BAR_US} us" if is_operator else f"{STEP_BAR}"
            results.append({"case": case, "off_us": base, "more_us": more, "ratio": ratio, "missed": missed})
            numbers = f"{base:10.2f} {base + more:10.2f} {more:8.2f} {ratio:6.3f} {bar:>8}"
            print(f"{case:36} {numbers}{'  MISSED' if missed else ''}", flush=True)
    save(results, options.json)
    sys.exit(any(entry["missed"] for entry in results))


if __name__ == "__main__":
    main()
