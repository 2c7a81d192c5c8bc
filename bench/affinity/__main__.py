"""The affinity library (torch_npu.contrib) against the same formulas in plain PyTorch, both on npu: forward and backward where
there is a gradient.

    scripts/bench affinity                            every case
    scripts/bench affinity --case ChannelShuffle      the cases whose names begin with it
    scripts/bench affinity --clock cpu                time of all threads instead of elapsed time: for a loaded machine
    scripts/bench affinity --json results.json        also writes the numbers there

Both run in one process, in blocks in the order A B B A. The ratio is that of the best rounds of both. The exit status is 1 if a
case misses its bar.
"""

import argparse
import shlex
import sys
import time

import torch

from bench.affinity.cases import CASES
from bench.measure import Side, interleave, save

CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", default="", help="beginning of the names of the cases")
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--clock", choices=list(CLOCKS), default="wall")
    parser.add_argument("--json")
    return parser.parse_args()


def measure(case, options):
    """Milliseconds of the formula and of the library: the best rounds, since other load only adds to them."""
    plain, ours = (Side(make(), torch.npu.synchronize) for make in (case.plain, case.ours))
    pairs = interleave(plain, ours, options.rounds, warm_up=2, clock=CLOCKS[options.clock])
    return min(first for _, first in pairs) * 1e3, min(other for other, _ in pairs) * 1e3


def main():
    options = parse()
    results = []
    print(f"{'case':30} {'threads':>7} {'plain ms':>9} {'ours ms':>9} {'ratio':>6} {'bar':>5}")
    for threads in options.threads:
        torch.set_num_threads(threads)
        for name, case in CASES.items():
            if not name.startswith(options.case):
                continue
            plain, ours = measure(case, options)
            ratio = ours / plain
            repro = f"scripts/bench affinity --case {shlex.quote(name)} --threads {threads} --clock {options.clock}"
            results.append({"case": name, "threads": threads, "plain_ms": plain, "ours_ms": ours, "ratio": ratio,
                            "bar": case.bar, "repro": repro})  # fmt: skip
            verdict = "" if case.bar is None else f" {case.bar:5.2f}{'' if ratio <= case.bar else '  MISSED'}"
            print(f"{name:30} {threads:7} {plain:9.3f} {ours:9.3f} {ratio:6.2f}{verdict}", flush=True)
    save(results, options.json)
    sys.exit(any(entry["bar"] is not None and entry["ratio"] > entry["bar"] for entry in results))


if __name__ == "__main__":
    main()
