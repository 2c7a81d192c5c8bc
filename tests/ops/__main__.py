"""The command line of the sweep: `python -m tests.ops --help`."""

import argparse
import collections
import os
import re
import subprocess
import sys
import time
from pathlib import Path

from . import environment, gaps, runner

ROOT = Path(__file__).resolve().parents[2]


def arguments():
    parser = argparse.ArgumentParser(prog="python -m tests.ops", description="The operator sweep: npu against the CPU.")
    parser.add_argument("case", nargs="?", help="one case, in this process, with all its samples and a traceback")
    parser.add_argument(
        "--quick",
        action="store_true",
        help="a few samples of each case, and a part of the cases of rarer dtypes and forms (the default)",
    )
    parser.add_argument("--full", action="store_true", help="all samples of each case")
    parser.add_argument("--only", metavar="REGEX", default="", help="the cases whose ids match")
    parser.add_argument("--resume", action="store_true", help="only the cases that the journal of the last run lacks")
    parser.add_argument("--retry", action="store_true", help="the same, and those that did not pass")
    parser.add_argument("--report", type=Path, metavar="FILE", help="everything unexpected and the summary, to this file too")
    parser.add_argument("--journal", type=Path, metavar="FILE", help="the results; else build/sweep/quick.jsonl or full.jsonl")
    parser.add_argument("--list", action="store_true", help="the ids of the cases, and nothing else")
    parser.add_argument("--jobs", type=int, metavar="N", default=os.cpu_count(), help="processes at a time")
    parser.add_argument("--shard-size", type=int, metavar="N", default=100, help="cases of a process")
    parser.add_argument(
        "--shard-seconds", type=float, metavar="S", default=900, help="after which a process makes room for another"
    )
    parser.add_argument("--environment", choices=environment.VARIABLES, help=argparse.SUPPRESS)  # only cases of this one
    parser.add_argument("--case-seconds", type=float, metavar="S", help="after which a case has hung: 60, or 300 with --full")
    return parser.parse_args()


def summary(records, verdict):
    """One line per check, and one for all."""
    unexpected = {text.split(": ")[0] for text in verdict.wrong}
    table = collections.defaultdict(collections.Counter)
    for id, record in records.items():
        for row in (id.rsplit("/", 1)[1], "all"):
            table[row]["executed"] += record["status"] != "skipped"
            table[row]["passed"] += record["status"] == "passed"
            table[row]["gaps"] += id in verdict.gaps
            table[row]["unexpected"] += id in unexpected
            table[row]["empty"] += record["status"] == "skipped"
            table[row]["CPU s"] += record["seconds"]
    columns = ("executed", "passed", "gaps", "unexpected", "empty", "CPU s")
    lines = [f"{'check':10}" + "".join(f"{name:>12}" for name in columns)]
    for row in sorted(table, key=lambda row: (row == "all", row)):
        lines.append(f"{row:10}" + "".join(f"{table[row][name]:12.0f}" for name in columns))
    return lines


def in_other_environment(name, journal):
    """Runs the cases that need another environment in a process with the same options. Returns their records."""
    part = journal.with_suffix(f".{name}.jsonl")
    command = [sys.executable, "-m", "tests.ops", *sys.argv[1:], "--environment", name, "--journal", part]
    subprocess.run(command, cwd=ROOT, check=True)
    return runner.load(part)


def sweep(options):
    import torch

    from .cases import collect

    torch.set_num_threads(1)
    cases = collect()
    if options.list:
        print("\n".join(cases))
        return 0
    if options.case and options.case not in cases:
        print(f"no case {options.case}: --list prints all of them", file=sys.stderr)
        return 2
    if options.case:
        print(cases[options.case].run(full=True, raising=True))
        return 0

    begin = time.monotonic()
    ids = [id for id in cases if re.search(options.only, id) and (options.full or options.only or cases[id].quick)]
    journal = options.journal or ROOT / "build" / "sweep" / ("full.jsonl" if options.full else "quick.jsonl")
    known = runner.load(journal).values() if options.resume or options.retry else ()
    if options.retry:
        known = [record for record in known if record["status"] in ("passed", "skipped")]
    limits = runner.Limits(
        options.jobs, options.shard_size, options.shard_seconds, options.case_seconds or (300 if options.full else 60)
    )

    def progress(record, done):
        if record["status"] not in ("passed", "skipped"):
            print(f"[{done}/{len(ids)}] {record['case']}: {record['status']}", flush=True)

    if options.environment:
        ids = [id for id in ids if environment.of(id) == options.environment]
        runner.run(ids, lambda id: cases[id].run(options.full), journal, limits, known, progress)
        return 0
    done = {record["case"] for record in known}
    if any(environment.of(id) == environment.CACHED and id not in done for id in ids):
        known = [*known, *in_other_environment(environment.CACHED, journal).values()]
    records = runner.run(ids, lambda id: cases[id].run(options.full), journal, limits, known, progress)
    verdict = gaps.judge(records, gaps.load(), list(cases), options.full)
    return runner.report(verdict.wrong, summary(records, verdict), begin, options.report)


def main():
    options = arguments()
    with runner.private_device():
        environment.enter(options.environment or environment.of(options.case or ""))
        return sweep(options)


if __name__ == "__main__":
    sys.exit(main())
