"""Collectives of libhccl, with the columns of nccl-tests and the ratios to gloo on CPU tensors in the same run.

    scripts/bench hccl                          2 ranks, all operations, 4 B to 32 MiB
    scripts/bench hccl --ranks 4 --op all_reduce
    scripts/bench hccl --bytes 1048576          one size
    scripts/bench hccl --runs 1                 one run of each side, without the order A B B A

`queued us` is the time of one of many calls that were launched at once, `waited us` that of a call that the host waits for, as
gloo's is. `GB/s` is the algorithm bandwidth and `bus GB/s` the bus bandwidth of nccl-tests, from `queued us`. `x gloo` is gloo's
time divided by `waited us`. The last line compares the bus bandwidth of an all-reduce of 32 MiB with memcpy, which all ranks call
at once. A case that misses its bar is marked, and the exit status is 1.
"""

import argparse
import statistics
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from bench.hccl.gloo import Gloo

PROGRAM = Path(__file__).resolve().parents[2] / "build/release/bench/hccl_bench"
SIZES = (4, 1 << 10, 64 << 10, 1 << 20, 8 << 20, 32 << 20)
OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast")
BARS = {  # times faster than gloo, for 2 ranks
    ("all_reduce", 4): 10,
    ("all_reduce", 64 << 10): 20,
    ("all_reduce", 1 << 20): 8,
    ("all_gather", 1 << 20): 5,
    ("reduce_scatter", 1 << 20): 5,
    ("all_to_all", 1 << 20): 5,
}
MEMCPY_BAR = 0.6
COLUMNS = {"": -15, "bytes": 10, "queued us": 10, "waited us": 10, "GB/s": 8, "bus GB/s": 9, "gloo us": 10, "x gloo": 8, "bar": 5}
HEADER = " ".join(name.ljust(-width) if width < 0 else name.rjust(width) for name, width in COLUMNS.items())


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--op", choices=OPERATIONS)
    parser.add_argument("--bytes", type=int)
    parser.add_argument("--runs", type=int, default=4)
    return parser.parse_args()


def run_hccl(options, cases):
    """Adds the rows of one run of hccl_bench to `cases`: by operation and bytes, queued us, waited us, GB/s, bus GB/s."""
    command = [str(PROGRAM), "--ranks", str(options.ranks)]
    if options.op:
        command += ["--op", options.op]
    if options.bytes:
        command += ["--bytes", str(options.bytes)]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    for line in output.splitlines()[1:]:
        name, size, *numbers = line.split()
        cases[name, int(size)].append([float(number) for number in numbers])


def medians(rows):
    return [statistics.median(column) for column in zip(*rows, strict=True)]


def main():
    options = parse()
    hccl, gloo_us = defaultdict(list), defaultdict(list)
    run_hccl(argparse.Namespace(ranks=options.ranks, op="barrier", bytes=4), defaultdict(list))  # the first run loads files
    gloo = Gloo(options.ranks)
    for run in range(options.runs):
        sides = ("hccl", "gloo") if run % 2 == 0 else ("gloo", "hccl")
        for side in sides:
            if side == "hccl":
                run_hccl(options, hccl)
                continue
            for name, size in [(n, s) for n in OPERATIONS for s in SIZES]:
                if name == (options.op or name) and (options.bytes is None or size == SIZES[0]):
                    wanted = options.bytes or max(size, 4 * options.ranks if name != "all_reduce" else 4)
                    gloo_us[name, wanted].append(gloo.measure(name, wanted))
    gloo.close()
    missed = False
    print(HEADER)
    for (name, size), rows in hccl.items():
        if name == "memcpy":
            continue
        queued, waited, algorithm, bus = medians(rows)
        line = f"{name:15} {size:10} {queued:10.1f} {waited:10.1f} {algorithm:8.2f} {bus:9.2f}"
        if (name, size) in gloo_us:
            other = statistics.median(gloo_us[name, size])
            bar = BARS.get((name, size)) if options.ranks == 2 else None
            verdict = "  MISSED" if bar and other / waited < bar else ""
            missed |= bool(verdict)
            line += f" {other:10.1f} {other / waited:8.1f} {bar or '':>5}{verdict}"
        print(line)
    (memcpy,) = [rows for (name, _), rows in hccl.items() if name == "memcpy"]
    large = hccl.get(("all_reduce", 32 << 20))
    if large:
        copied, bus = medians(memcpy)[1], medians(large)[3]
        ratio = bus / copied
        verdict = "  MISSED" if options.ranks == 2 and ratio < MEMCPY_BAR else ""
        missed |= bool(verdict)
        print(f"all_reduce of 32 MiB: bus {bus:.2f} GB/s, memcpy {copied:.2f} GB/s, ratio {ratio:.2f}, bar {MEMCPY_BAR}{verdict}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
