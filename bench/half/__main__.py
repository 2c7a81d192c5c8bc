"""The cost of half precision on npu, as ratios to float32 on npu in the same run: operators, and networks under autocast.

    scripts/bench half                            every case at 1 and 2 threads
    scripts/bench half --case 'conv 3x3'          the cases whose names begin with it
    scripts/bench half --clock cpu                time of all threads instead of elapsed time: for a loaded machine
    scripts/bench half --json results.json        also writes the numbers there

Both dtypes run in one process, in blocks in the order A B B A. The ratio is that of the best rounds of both. The exit status
is 1 if a case misses its bar.
"""

import argparse
import functools
import shlex
import sys
import time

import torch

from bench.half.cases import DTYPES, OPERATOR_BAR, OPERATORS, TRAINING_BARS, network_step
from bench.measure import Side, interleave, save
from bench.models.__main__ import NETWORKS

CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
CASES = {
    **{name: (make, OPERATOR_BAR) for name, make in OPERATORS.items()},
    **{f"{name} training": (functools.partial(network_step, name), TRAINING_BARS.get(name)) for name in NETWORKS},
}


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", default="", help="beginning of the names of the cases")
    parser.add_argument("--dtypes", nargs="*", choices=list(DTYPES), default=list(DTYPES))
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--clock", choices=list(CLOCKS), default="wall")
    parser.add_argument("--json")
    return parser.parse_args()


def measure(make, dtype, options):
    """Milliseconds in float32 and in `dtype`: the best rounds, since other load only adds to them."""
    base, half = (Side(make(kind), torch.npu.synchronize) for kind in (torch.float32, dtype))
    pairs = interleave(base, half, options.rounds, warm_up=2, clock=CLOCKS[options.clock])
    return min(first for _, first in pairs) * 1e3, min(other for other, _ in pairs) * 1e3


def main():
    options = parse()
    results = []
    print(f"{'case':34} {'dtype':8} {'threads':>7} {'float32 ms':>10} {'half ms':>9} {'ratio':>6} {'bar':>5}")
    for threads in options.threads:
        torch.set_num_threads(threads)
        for name, (make, bar) in CASES.items():
            for dtype in options.dtypes if name.startswith(options.case) else ():
                base, half = measure(make, DTYPES[dtype], options)
                ratio = half / base
                repro = (
                    f"scripts/bench half --case {shlex.quote(name)} --dtypes {dtype} --threads {threads} --clock {options.clock}"
                )
                results.append({"case": name, "dtype": dtype, "threads": threads, "float32_ms": base, "half_ms": half,
                                "ratio": ratio, "bar": bar, "repro": repro})  # fmt: skip
                verdict = "" if bar is None else f" {bar:5.2f}{'' if ratio <= bar else '  MISSED'}"
                print(f"{name:34} {dtype:8} {threads:7} {base:10.3f} {half:9.3f} {ratio:6.2f}{verdict}", flush=True)
    save(results, options.json)
    sys.exit(any(entry["bar"] is not None and entry["ratio"] > entry["bar"] for entry in results))


if __name__ == "__main__":
    main()
