"""The command line of the sweep: `python -m tests.ops --help`."""

import argparse
import collections
import os
import re
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# For the device, which reads them at its first use.
os.environ.setdefault("ASCEND_PROCESS_LOG_PATH", str(ROOT / "build" / "log"))
os.environ.setdefault("SOFTNPU_MEMORY_CHECK", "redzone,poison")
os.environ.setdefault("SOFTNPU_DEVICE_MEMORY", "2G")


def arguments():
    parser = argparse.ArgumentParser(prog="python -m tests.ops", description="The operator sweep: npu against the CPU.")
    parser.add_argument("case", nargs="?", help="one case, in this process, with its traceback and all its samples")
    parser.add_argument("--quick", action="store_true", help="a few samples of each case (the default)")
    parser.add_argument("--full", action="store_true", help="all samples of each case")
    parser.add_argument("--only", metavar="REGEX", help="the cases whose ids match")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), metavar="N", help="processes at a time")
    parser.add_argument("--shard-size", type=int, default=100, metavar="N", help="cases of a process")
    parser.add_argument("--case-seconds", type=int, help="limit of a case; 60, or 300 with --full")
    parser.add_argument("--shard-seconds", type=int, default=3600, help="limit of a process")
    parser.add_argument("--resume", action="store_true", help="only the cases that the journal of the last run lacks")
    parser.add_argument("--retry", action="store_true", help="with --resume: those that failed, too")
    parser.add_argument("--journal", type=Path, help="where results go; build/sweep/quick.jsonl or full.jsonl")
    parser.add_argument("--report", type=Path, metavar="FILE", help="the summary and everything unexpected, also to this file")
    parser.add_argument("--list", action="store_true", help="the ids of the cases, and nothing else")
    return parser.parse_args()


def summary(records, verdict, seconds):
    """One line per check, and one for all."""
    unexpected = {text.split(": ")[0] for text in verdict.wrong}
    table = collections.defaultdict(collections.Counter)
    for id, record in records.items():
        for row in (id.rsplit("/", 1)[1], "all"):
            table[row]["executed"] += record["status"] != "skipped"
            table[row]["passed"] += record["status"] == "passed"
            table[row]["gaps"] += id in verdict.gaps
            table[row]["unexpected"] += id in unexpected
            table[row]["nothing"] += record["status"] == "skipped"
            table[row]["seconds"] += record["seconds"]
    lines = [f"{'check':12} executed  passed    gaps unexpected nothing to compare  CPU seconds"]
    for row in sorted(table, key=lambda row: (row == "all", row)):
        cells = table[row]
        lines.append(
            f"{row:12} {cells['executed']:8} {cells['passed']:7} {cells['gaps']:7} {cells['unexpected']:10} "
            f"{cells['nothing']:18} {cells['seconds']:12.0f}"
        )
    return [*lines, f"{len(verdict.wrong)} unexpected, {seconds:.0f} s"]


def main():
    options = arguments()
    with tempfile.TemporaryDirectory(prefix="torch_npu_sweep") as ledger:
        os.environ.setdefault("SOFTNPU_LEDGER_DIR", ledger)
        return sweep(options)


def sweep(options):
    import torch

    from . import cases as all_cases
    from . import gaps, runner

    torch.set_num_threads(1)
    cases = all_cases.collect()
    if options.list:
        print("\n".join(cases))
        return 0
    if options.case:
        if options.case not in cases:
            print(f"no case {options.case}; --list prints all {len(cases)}", file=sys.stderr)
            return 2
        print(cases[options.case].run(full=True, raising=True))
        return 0

    ids = [id for id in cases if not options.only or re.search(options.only, id)]
    journal = options.journal or ROOT / "build" / "sweep" / ("full.jsonl" if options.full else "quick.jsonl")
    if options.retry:
        kept = [line for line in runner.load(journal).values() if line["status"] in ("passed", "skipped")]
        runner.save(journal, kept)

    def progress(record, done, of):
        if record["status"] not in ("passed", "skipped"):
            print(f"[{done}/{of}] {record['case']}: {record['status']}", flush=True)

    begin = time.monotonic()
    records = runner.run(
        ids,
        lambda id: cases[id].run(options.full),
        journal,
        options.jobs,
        options.shard_size,
        options.case_seconds or (300 if options.full else 60),
        options.shard_seconds,
        options.resume,
        progress,
    )
    verdict = gaps.judge(records, gaps.load(), list(cases), options.full)
    text = "\n".join([*verdict.wrong, "", *summary(records, verdict, time.monotonic() - begin)])
    print(text)
    if options.report:
        options.report.write_text(text + "\n")
    return 1 if verdict.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
