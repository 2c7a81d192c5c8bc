"""The command `python -m torch_npu.coverage`: which operators of a program run on npu, before anything is moved."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...contrib._cuda_alias.cpu_target import CudaOnCpu
from ..report import write_text
from . import fake, models, profiles, programs
from .programs import Limits, Outcome
from .record import Record
from .result import Result, as_data, as_html, judge, text

_STATUS = "exit status: 0 nothing missing, 1 operators are missing, 2 wrong arguments, 3 the program failed"


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m torch_npu.coverage",
        description="Which operators of a program run on npu, which fall back to the CPU, and which are missing. No device is "
        'used: a program for CUDA runs on the CPU, where "cuda" means the CPU.',
        epilog=_STATUS,
    )
    made.add_argument(
        "target", help="script.py, a profile (Chrome trace or printed table), or a model: module:factory, file.py:factory"
    )
    made.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of the script")
    made.add_argument("--json", type=Path, metavar="FILE", help="write the answer for programs")
    made.add_argument("--html", type=Path, metavar="FILE", help="write a page that needs no other file")
    made.add_argument(
        "--max-steps", type=_count, default=2, metavar="N", help="steps of optimizers, then end; 0: no limit (default 2)"
    )
    made.add_argument(
        "--time-limit", type=_seconds, default=300, metavar="S", help="seconds, then end; 0: no limit (default 300)"
    )
    made.add_argument("--trace", action="store_true", help="on fake tensors of npu: nothing is computed, models need no memory")
    made.add_argument("--all", action="store_true", help="also operators of tensors that the program keeps on the CPU")
    made.add_argument(
        "--input", action="append", default=[], metavar="SHAPE[:DTYPE]", help="inputs of a model, such as 1x3x224x224"
    )
    made.add_argument("--inference", action="store_true", help="a model runs without backward")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    commands = parser()
    options = commands.parse_args(arguments)
    for path in (options.json, options.html):
        if path is not None and (reason := _unwritable(path)):
            commands.error(reason)
    try:
        result = evaluate(options)
    except (models.BadModel, profiles.NotAProfile) as error:
        commands.error(str(error))
    except OSError as error:
        commands.error(f"{options.target} cannot be read: {error.strerror}")
    if options.json is not None:
        write_text(options.json, json.dumps(as_data(result), indent=1) + "\n")
    if options.html is not None:
        write_text(options.html, as_html(result))
    print(text(result))
    if result.outcome is not None and result.outcome.ended == "failed":
        return 3
    return 1 if result.missing else 0


def evaluate(options: argparse.Namespace) -> Result:
    target, limits = options.target, Limits(options.max_steps, options.time_limit)
    path = Path(target)
    if ":" in target and not path.exists():
        return _evaluate_model(options, limits)
    if not path.exists():
        raise models.BadModel(
            f"{target} does not exist; give a Python script, a profile of PyTorch, or a model as module:factory"
        )
    if path.is_dir():
        raise models.BadModel(f"{target} is a folder; give the script in it that starts the program")
    if profiles.is_profile(path):
        return judge(profiles.read_profile(path), target, "a profile: operators without overloads and call sites", None, True)
    path.read_bytes()  # a file that cannot be read is named before anything runs
    return _recorded(options, lambda: programs.run_script(path, options.arguments, limits))


def _evaluate_model(options: argparse.Namespace, limits: Limits) -> Result:
    def run() -> Outcome:
        return programs.run(lambda: models.run_model(*made, not options.inference, "npu" if options.trace else None), limits)

    if not options.trace:
        made = models.load(options.target, options.input)
        return _recorded(options, run)
    record = Record()
    with fake.fake_npu(Record()):  # parameters are fake from the beginning; making them is no part of the model
        made = models.load(options.target, options.input)
    with fake.fake_npu(record):
        outcome = run()
    return judge(record, options.target, "fake tensors of npu", outcome, options.all)


def _recorded(options: argparse.Namespace, run: Any) -> Result:
    record = Record()
    if options.trace:
        with fake.fake_npu(record):
            outcome = run()
        return judge(record, options.target, "fake tensors of npu", outcome, options.all)
    with CudaOnCpu(record.note):
        outcome = run()
    how = 'run on the CPU, where "cuda" meant the CPU' if record.moved else "run on the CPU"
    return judge(record, options.target, how, outcome, options.all)


def _unwritable(path: Path) -> str:
    folder = path.parent
    if path.is_dir():
        return f"{path} is a folder; give the name of a file"
    if not folder.is_dir():
        return f"{path}: the folder {folder} does not exist"
    return "" if os.access(folder, os.W_OK) else f"{path}: the folder {folder} cannot be written"


def _count(word: str) -> int:
    if not word.isdigit():
        raise argparse.ArgumentTypeError(f"a whole number of at least 0, but got {word!r}")
    return int(word)


def _seconds(word: str) -> float:
    try:
        value = float(word)
    except ValueError:
        value = -1
    if not 0 <= value < 1e9:
        raise argparse.ArgumentTypeError(f"a number of seconds of at least 0, but got {word!r}")
    return value


if __name__ == "__main__":
    sys.exit(main())
