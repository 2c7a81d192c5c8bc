"""A step of the fused optimizers over 200 parameters, as ratios to torch.optim on npu in the same run.

    scripts/bench optim                           every case at the small size, 1 thread
    scripts/bench optim --case Adam               the cases whose names begin with it
    scripts/bench optim --width 2 8 64            other sizes: numbers of channels of the first convolution
    scripts/bench optim --clock cpu               time of all threads instead of elapsed time: for a loaded machine
    scripts/bench optim --json results.json       also writes the numbers there

The parameters have the proportions of a ResNet: convolutions, and two vectors for each. Bars hold for the width 2, where launches
decide. `launches` is the number of the fused step. Both sides run in one process, in blocks in the order A B B A. The ratio is
that of the best rounds of both. The exit status is 1 if a case misses its bar.
"""

import argparse
import functools
import shlex
import sys
import time

import torch
from torch_npu import softnpu

from bench.measure import Side, interleave, save
from bench.optim.cases import OTHERS, TWINS, fused_step, plain_step, shapes, unscale

BAR_WIDTH = 2
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
# Name -> (what to make of a width: the case, its base; bar).
CASES = {
    **{
        f"{name} / foreach={foreach}": (
            functools.partial(fused_step, name),
            functools.partial(plain_step, name, foreach=foreach),
            bar if name in TWINS else None,
        )
        for name in (*TWINS, *OTHERS)
        for foreach, bar in ((False, 0.10), (True, 0.5))
    },
    "unscale combined / not": (functools.partial(unscale, combined=True), functools.partial(unscale, combined=False), 0.4),
}


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", default="", help="beginning of the names of the cases")
    parser.add_argument("--width", type=int, nargs="*", default=[BAR_WIDTH])
    parser.add_argument("--threads", type=int, nargs="*", default=[1])
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--clock", choices=list(CLOCKS), default="wall")
    parser.add_argument("--json")
    return parser.parse_args()


def launches(job):
    with softnpu.faults("count"):
        job()
        return softnpu.fault_counts()["launch"]


def main():
    options = parse()
    results = []
    print(f"{'case':28} {'elements':>9} {'threads':>7} {'launches':>8} {'base us':>9} {'fused us':>9} {'ratio':>6} {'bar':>5}")
    for threads in options.threads:
        torch.set_num_threads(threads)
        for width in options.width:
            elements = sum(torch.Size(shape).numel() for shape in shapes(width))
            for name, (make, make_base, bar) in CASES.items():
                if not name.startswith(options.case):
                    continue
                job, base_job = make(width), make_base(width)
                sides = (Side(base_job, torch.npu.synchronize), Side(job, torch.npu.synchronize))
                pairs = interleave(*sides, options.rounds, warm_up=3, clock=CLOCKS[options.clock])
                fused, base = (min(times) * 1e6 for times in zip(*pairs, strict=True))
                bar = bar if width == BAR_WIDTH else None
                repro = f"scripts/bench optim --case {shlex.quote(name)} --width {width} --threads {threads}"
                results.append({"case": name, "elements": elements, "threads": threads, "launches": launches(job), "bar": bar,
                                "base_us": base, "fused_us": fused, "ratio": fused / base, "repro": repro})  # fmt: skip
                verdict = "" if bar is None else f" {bar:5.2f}{'' if fused <= bar * base else '  MISSED'}"
                numbers = f"{elements:9} {threads:7} {results[-1]['launches']:8} {base:9.0f} {fused:9.0f} {fused / base:6.3f}"
                print(f"{name:28} {numbers}{verdict}", flush=True)
    save(results, options.json)
    sys.exit(any(entry["bar"] is not None and entry["ratio"] > entry["bar"] for entry in results))


if __name__ == "__main__":
    main()
