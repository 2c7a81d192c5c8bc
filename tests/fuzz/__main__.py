"""The command line of the fuzzer: `python -m tests.fuzz --help`."""

import argparse
import collections
import gc
import os
import sys
import tempfile
import time
from pathlib import Path

from tests.ops import runner

from . import execute, interrupts, printing, settings
from .shrink import shrink

ROOT = Path(__file__).resolve().parents[2]


def arguments():
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Random programs of memory, streams and graphs.")
    parser.add_argument("--seeds", default="0:2000", metavar="N[:M]", help="the program of seed N, or those from N up to M")
    parser.add_argument("--interrupts", action="store_true", help="interrupt each program by Ctrl-C at a random moment")
    parser.add_argument("--print", action="store_true", help="print the program of seed N and do not run it")
    parser.add_argument("--jobs", type=int, metavar="N", default=os.cpu_count(), help="processes at a time")
    parser.add_argument("--shown", type=int, metavar="N", default=3, help="failing programs that are shortened and printed")
    parser.add_argument("--attempts", type=int, metavar="N", default=60, help="steps tried to shorten one of them")
    parser.add_argument("--journal", type=Path, metavar="FILE", default=ROOT / "build" / "fuzz.jsonl", help="the results")
    return parser.parse_args()


def seeds_of(text):
    first, _, end = text.partition(":")
    return range(int(first), int(end) if end else int(first) + 1)


def run_seed(seed):
    """In a process that runs the seeds of one block of settings."""
    execute.prepare(seed)
    found = execute.failure(execute.program_of(seed), settings.of(seed).environment)
    return runner.Result("failed" if found else "passed", found or "")


def fails(program):
    """Whether the program fails in at least one of three runs, each in its own process."""
    environment = settings.of(program.seed).environment

    def run(_):
        execute.prepare(program.seed)
        found = execute.failure(program, environment)
        return runner.Result("failed" if found else "passed", found or "")

    with tempfile.TemporaryDirectory() as folder:
        limits = runner.Limits(jobs=1, shard_size=1, case_seconds=10)
        records = runner.run(["0", "1", "2"], run, Path(folder) / "journal", limits)
    return any(record["status"] != "passed" for record in records.values())


def shorter(seed, attempts):
    """The failing program as text, shortened."""
    program = shrink(execute.program_of(seed), fails, attempts)
    return printing.stand_alone(program, settings.of(seed).environment)


def table(records, of):
    """Failures by settings."""
    counts = collections.Counter()
    for record in records.values():
        counts[of(int(record["case"])).name, record["status"]] += 1
    return [f"{name:60} {status:8} {count:5}" for (name, status), count in sorted(counts.items())]


def blocks(seeds):
    """Lists of seeds with the same settings."""
    parts = collections.defaultdict(list)
    for seed in seeds:
        parts[seed // settings.BLOCK].append(str(seed))
    return list(parts.values())


def main():
    options = arguments()
    seeds = seeds_of(options.seeds)
    if options.print:
        print(printing.stand_alone(execute.program_of(seeds[0]), settings.of(seeds[0]).environment))
        return 0
    import torch

    torch.set_num_threads(1)
    gc.collect()
    gc.freeze()  # gc.collect() after each program skips torch's objects
    begin, wrong = time.monotonic(), []
    with runner.private_device():
        run = interrupts.run_seed if options.interrupts else run_seed
        limits = runner.Limits(jobs=options.jobs, shard_size=settings.BLOCK, case_seconds=30)
        ids = [str(seed) for seed in seeds]
        records = runner.run(ids, lambda id: run(int(id)), options.journal, limits)
        failed = [record for record in records.values() if record["status"] != "passed"]
        for record in failed:
            wrong.append(f"seed {record['case']}: {record['status']}: {record['detail']}")
        if not options.interrupts:
            for record in failed[: options.shown]:
                wrong.append(shorter(int(record["case"]), options.attempts))
        return runner.report(wrong, table(records, settings.of_interrupted if options.interrupts else settings.of), begin, None)


if __name__ == "__main__":
    sys.exit(main())
