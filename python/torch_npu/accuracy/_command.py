"""The command `python -m torch_npu.accuracy script.py`: finds operators of a program that give wrong numbers on npu."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..npu import _watch
from ..tools.coverage.programs import Limits, Outcome, run_script
from ..tools.report import Cell, Section, Table, page, write_text
from ._modules import Modules
from ._nonfinite import NonFinite
from ._places import Places
from ._shadow import Finding, Shadows

_STATUS = "exit status: 0 no operator is wrong, 1 an operator is wrong, 2 wrong arguments, 3 the program failed"


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m torch_npu.accuracy",
        description="Runs an unchanged program on npu and repeats some calls of each operator on the CPU in float64. Reports "
        "each operator whose error exceeds its bound, and writes a program that repeats the error.",
        epilog=_STATUS,
    )
    made.add_argument("script", type=Path)
    made.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of the script")
    made.add_argument("--operators", default=".*", metavar="EXPRESSION", help="operators to compare, as in docs/debugging.md")
    made.add_argument("--first", type=_count, default=3, metavar="N", help="compare the first N calls of an operator (default 3)")
    made.add_argument("--every", type=_count, default=100, metavar="N", help="and then every N-th call (default 100)")
    made.add_argument(
        "--max-steps", type=_count, default=0, metavar="N", help="end after N steps of optimizers (default: no limit)"
    )
    made.add_argument("--time-limit", type=_count, default=0, metavar="S", help="end after S seconds (default: no limit)")
    made.add_argument("--no-overflow", action="store_true", help="do not look for the first result that is not finite")
    made.add_argument("--out", type=Path, default=Path("npu_accuracy"), metavar="FOLDER", help="default npu_accuracy")
    return made


def _count(text: str) -> int:
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"must be a whole number, but is {text!r}")
    return int(text)


def main(arguments: Sequence[str] | None = None) -> int:
    commands = parser()
    options = commands.parse_args(arguments)
    try:
        import numpy  # noqa: F401 (the bounds need it)
    except ImportError:
        commands.error("the package numpy is needed: pip install 'torch_npu[accuracy]'")
    rank = os.environ.get("RANK", "")
    if rank.isdecimal() and os.environ.get("WORLD_SIZE", "1") != "1":
        options.out /= f"rank{rank}"
    if not options.script.is_file():
        commands.error(f"{options.script} is not a file; give the script that starts the program")
    try:
        options.out.mkdir(parents=True, exist_ok=True)
        names, every = _watch.matching(options.operators), _watch.matching(".*")
    except OSError as error:
        commands.error(f"the folder {options.out} cannot be made: {error.strerror}")
    except ValueError as error:
        commands.error(str(error))
    if not names:
        commands.error(f"--operators {options.operators!r} matches no operator that reaches npu")
    modules = Modules()
    places = Places(modules)
    shadows = Shadows(options.out, places, options.first, max(options.every, 1))
    overflow = NonFinite(places)
    chosen = frozenset(names)

    def observe(op: Any, args: Any, kwargs: Any) -> Any:
        places(op, args, kwargs)
        parts: list[Any] = [shadows] if op._name in chosen else []
        done = [part(op, args, kwargs) for part in ([*parts] if options.no_overflow else [*parts, overflow])]
        return lambda result: [finish(result) for finish in done if finish is not None]

    modules.open()
    _watch.watch(every, observe)  # one observer, because installing one takes a second
    try:
        outcome = run_script(options.script, options.arguments, Limits(options.max_steps, options.time_limit))
    finally:
        _watch.unwatch(every, observe)
        modules.close()
    return _report(options, shadows, overflow.finding, outcome)


def _report(options: argparse.Namespace, shadows: Shadows, overflow: Finding | None, outcome: Outcome) -> int:
    findings = list(shadows.findings.values())
    compared = f"{sum(shadows.compared.values())} calls of {len(shadows.compared)} operators were compared with float64"
    told = [f"{outcome.said}; {compared}"]
    if outcome.traceback:
        told.append(outcome.traceback.rstrip())
    if not shadows.compared:
        told.append("no operator ran on npu; does the program use the device?")
    told += [found.text() for found in findings] or ["no operator is beyond its bound"]
    if overflow is not None:
        told.append(f"the first result that is not finite: {overflow.text()}")
    data = {
        "version": 1,
        "program": str(options.script),
        "ended": outcome.ended,
        "said": outcome.said,
        "compared": dict(shadows.compared),
        "skipped": shadows.skipped,
        "findings": [vars(found) for found in findings],
        "overflow": vars(overflow) if overflow else None,
    }
    try:
        write_text(options.out / "report.json", json.dumps(data, indent=1) + "\n")
        write_text(options.out / "report.html", _page(options, told, findings, shadows, data))
        told.append(f"written: {options.out / 'report.html'}")
    except OSError as error:
        told.append(f"{error.strerror}; choose another --out or free space")
    print("\n".join(told))
    sys.stdout.flush()
    if outcome.ended == "failed":
        return 3
    return 1 if findings or overflow is not None else 0


def _page(options: argparse.Namespace, told: list[str], findings: list[Finding], shadows: Shadows, data: Any) -> str:
    columns = ["operator", "calls", "module", "line", "reason", "program"]
    rows = [[Cell(f.operator, "bad"), f.calls, f.module, f.line, f.reason, f.program] for f in findings]
    counts = [[name, shadows.seen[name], count] for name, count in shadows.compared.most_common()]
    skipped = [[name, reason] for name, reason in sorted(shadows.skipped.items())]
    sections = [
        Section("Result", told),
        Section("Operators beyond their bound", [], [Table(columns, rows)]),
        Section("Compared operators", [], [Table(["operator", "calls", "compared"], counts)]),
        Section("Operators that were not compared", [], [Table(["operator", "reason"], skipped)]),
    ]
    return page(f"Accuracy of {options.script.name}", sections, data)
