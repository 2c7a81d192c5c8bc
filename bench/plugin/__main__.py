"""The cost of operators on npu, as ratios to CPU PyTorch in the same run.

    scripts/bench ops                          every case at 1 and 2 threads, the best of three runs
    scripts/bench ops --case 'add 64x64'       the cases whose names begin with it
    scripts/bench ops --threads 1 --runs 1     one number of threads, one run
    scripts/bench ops --json results.json      also writes the numbers there

A case that misses its bar is marked, and the exit status is 1.
"""

import argparse
import shlex
import statistics
import sys

import torch

from bench.measure import compare, save
from bench.plugin.cases import CASES, MEDIAN_OF_SMALL, SMALL_CASES
from bench.plugin.import_time import IMPORT_CASE, import_ratio

HEADER = f"{'case':34} {'threads':>7} {'CPU us':>9} {'npu us':>9} {'ratio':>6} {'bar':>5} {'stretch':>7}"


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", default="", help="beginning of the names of the cases")
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=40, help="of each run")
    parser.add_argument("--json")
    return parser.parse_args()


def row(name, threads, outcome, bar, stretch):
    return {
        "case": name,
        "threads": threads,
        "cpu_us": round(outcome.cpu_us, 3) if outcome else None,
        "npu_us": round(outcome.npu_us, 3) if outcome else None,
        "ratio": outcome.ratio if outcome else None,
        "bar": bar,
        "stretch": stretch,
        "repro": f"scripts/bench ops --case {shlex.quote(name)} --threads {threads}",
    }


def show(entry):
    verdict = "" if entry["bar"] is None or entry["ratio"] <= entry["bar"] else "  MISSED"
    times = "".join(f" {entry[key]:9.2f}" if entry[key] is not None else f" {'':9}" for key in ("cpu_us", "npu_us"))
    bars = "".join(f" {entry[key]:{width}.2f}" if entry[key] is not None else "" for key, width in (("bar", 5), ("stretch", 7)))
    print(f"{entry['case']:34} {entry['threads']:7}{times} {entry['ratio']:6.2f}{bars}{verdict}", flush=True)
    return entry


def best(case, options):
    outcomes = [compare(case, options.rounds) for _ in range(options.runs)]
    return min(outcomes, key=lambda outcome: outcome.ratio)


def main():
    options = parse()
    chosen = [case for case in CASES if case.name.startswith(options.case)]
    small = [case for case in SMALL_CASES if case.name.startswith(options.case)]
    results = []
    print(HEADER)
    for threads in options.threads:
        torch.set_num_threads(threads)
        for case in chosen:
            results.append(show(row(case.name, threads, best(case, options), case.bar, case.stretch)))
        ratios = []
        for case in small:
            outcome = best(case, options)
            ratios.append(outcome.ratio)
            results.append(show(row(case.name, threads, outcome, case.bar, case.stretch)))
        if len(small) == len(SMALL_CASES):
            entry = row(MEDIAN_OF_SMALL[0], threads, None, *MEDIAN_OF_SMALL[1:])
            results.append(show({**entry, "ratio": statistics.median(ratios)}))
    if IMPORT_CASE[0].startswith(options.case):
        entry = row(IMPORT_CASE[0], 1, None, *IMPORT_CASE[1:])
        results.append(show({**entry, "ratio": min(import_ratio() for _ in range(options.runs))}))
    save(results, options.json)
    sys.exit(any(entry["bar"] is not None and entry["ratio"] > entry["bar"] for entry in results))


if __name__ == "__main__":
    main()
