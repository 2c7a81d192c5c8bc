"""The command msprof: makes a timeline and tables of a folder PROF_*.

    msprof --export=on --output=./PROF_000001_20250101120000000_ABC      # timeline/msprof_DEVICE.json, summary/*.csv in it
    msprof --export=on --output=./result --iteration-id=2 --summary-format=json
    msprof --export=on --output=./result --type=db                       # msprof_TIME.db instead

--output is the folder of the raw records, or one that contains folders PROF_*, of torch.npu.profile or of libmsprofiler.so.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from . import database, names, tables
from .folder import moment
from .records import NotAProfile, Records, read_raw, said
from .trace import Event, TraceMaker, write_events

LAYERS = ("MsprofTx", "AscendCL", "Task Scheduler", "AI CPU")
SUMMARY_COLUMNS = [
    *("Device_id", "Model Name", "Model ID", "Task ID", "Stream ID", "Infer ID", "Op Name", "OP Type", "OP State", "Task Type"),
    *("Task Start Time(us)", "Task Duration(us)", "Task Wait Time(us)", "Block Num", "HF32 Eligible", "Mix Block Num"),
    *("Input Shapes", "Input Data Types", "Input Formats", "Output Shapes", "Output Data Types", "Output Formats", "Context ID"),
    *("aicore_time(us)", "total_cycles"),
]
# Options of the vendor's command: first the options without effect, then the options that are not offered.
_NO_EFFECT = {
    "--model-id": "there are no offline models",
    "--clear": "there are no intermediate files",
    "--python-path": "it runs in this Python",
}
_REFUSED = {
    "--application": "python -m torch_npu.profile SCRIPT records a program",
    "--query": "host/info.json in the folder says what was recorded",
    "--analyze": "python -m torch_npu.profiler.advise FOLDER says what slows a program down",
    "--reports": "all reports are written",
}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="msprof", description="Makes a timeline and tables of a folder PROF_*.")
    parser.add_argument("--export", choices=["on", "off"], default="off", help="on: write timeline/ and summary/")
    parser.add_argument("--parse", choices=["on", "off"], default="off", help="on: only check that the records can be read")
    parser.add_argument(
        "--output", required=True, metavar="DIR", help="a folder PROF_* of raw records, or a folder that contains some"
    )
    parser.add_argument("--type", choices=["text", "db"], default="text", help="db: a SQLite database instead of text files")
    parser.add_argument("--summary-format", choices=["csv", "json"], default="csv", help="format of the tables (default csv)")
    parser.add_argument("--iteration-id", type=int, metavar="N", help="only records of this step")
    for name, reason in _NO_EFFECT.items():
        parser.add_argument(name, metavar="VALUE", help=f"no effect: {reason}")
    for name, advice in _REFUSED.items():
        parser.add_argument(name, metavar="VALUE", help=f"not offered: {advice}")
    options = parser.parse_args(arguments)
    for name, advice in _REFUSED.items():
        if getattr(options, name[2:].replace("-", "_")) is not None:
            return _fail(f"{name} is not offered: {advice}")
    for name, reason in _NO_EFFECT.items():
        if getattr(options, name[2:].replace("-", "_")) is not None:
            print(f"msprof: {name} has no effect: {reason}", file=sys.stderr)
    if options.export != "on" and options.parse != "on":
        return _fail("there is nothing to do; give --export=on")
    try:
        for folder in prof_folders(Path(options.output)):
            records = read_raw(folder)
            if missing := records.what_is_missing():
                print(f"msprof: the records of {folder} are incomplete: {missing}", file=sys.stderr)
            if options.export != "on":
                print(f"{folder} can be read: {len(records.tasks)} tasks, {len(records.calls)} calls")
                continue
            if options.iteration_id is not None:
                records = of_step(records, options.iteration_id)
            print(f"Export of {folder} is done: {export(folder, records, options.type, options.summary_format)}")
    except (NotAProfile, OSError) as error:
        return _fail(said(error))
    return 0


def _fail(text: str) -> int:
    print(f"msprof: {text}", file=sys.stderr)
    return 1


def prof_folders(path: Path) -> list[Path]:
    if not path.is_dir():
        raise NotAProfile(f"{path} is not a folder; give a folder PROF_* of torch.npu.profile")
    if (path / "host").is_dir():
        return [path]
    found = sorted(folder for folder in path.glob("PROF_*") if (folder / "host").is_dir())
    if not found:
        raise NotAProfile(f"{path} contains no folder PROF_* with records; give the path that torch.npu.profile wrote to")
    return found


def of_step(records: Records, number: int) -> Records:
    """The records that began during a step."""
    step = next((step for step in records.steps if step.number == number), None)
    if step is None:
        known = ", ".join(str(step.number) for step in records.steps) or "none; ACL_PROF_TRAINING_TRACE records them"
        raise NotAProfile(f"--iteration-id: there is no step {number}; the steps are {known}")

    def inside(rows: list[Any]) -> list[Any]:
        return [row for row in rows if step.start_ns <= row.start_ns < step.end_ns]

    return Records(
        inside(records.tasks), inside(records.calls), inside(records.operators), inside(records.marks), [], [step], records.info
    )


def export(folder: Path, records: Records, kind: str = "text", summary_format: str = "csv") -> str:
    """Writes timeline/ and summary/ in the folder, or a database. Returns the names of the results."""
    if kind == "db":
        base = folder / f"msprof_{moment()}.db"
        database.write(base, records)
        return str(base)
    for name in ("timeline", "summary"):
        try:
            (folder / name).mkdir(exist_ok=True)
        except OSError as error:
            raise OSError(error.errno, f"{folder / name} cannot be made: {error.strerror}") from None
    for device in records.devices() or [0]:
        maker = TraceMaker(replace(records, tasks=[task for task in records.tasks if task.device == device]))
        write_events(folder / "timeline" / f"msprof_{device}.json", four_layers(maker), maker.base, records.info)
    write_summary(folder / "summary", records)
    if summary_format == "json":
        for path in (folder / "summary").glob("*.csv"):
            with path.open() as file:
                rows = list(csv.DictReader(file))
            try:
                path.with_suffix(".json").write_text(json.dumps(rows, indent=1) + "\n")
            except OSError as error:
                raise OSError(error.errno, f"{path.with_suffix('.json')} cannot be written: {error.strerror}") from None
            path.unlink()
    return f"{folder / 'timeline'}, {folder / 'summary'}"


def four_layers(maker: TraceMaker) -> Iterator[Event]:
    framework, calls, tasks, ai_cpu = LAYERS
    yield from maker.framework(framework, 1, "CPU", 0)
    yield from maker.calls(calls, 2, "CPU", 1)
    yield from maker.tasks(tasks, 3, "NPU", 2)
    yield from maker.tasks(ai_cpu, 4, "NPU", 3, only="AI_CPU")


def write_summary(folder: Path, records: Records) -> None:
    config = records.info.get("config") or {}
    metrics = config.get("metrics", "ACL_AICORE_NONE")
    if isinstance(metrics, int):
        metrics = names.METRIC_NUMBERS.get(metrics, metrics)
    extra = names.METRIC_COLUMNS.get(str(metrics))
    if extra is None:
        raise NotAProfile(f"the records name the unknown metric {metrics!r}; the metrics are {', '.join(names.METRIC_COLUMNS)}")
    rest = [names.UNKNOWN] * (2 + len(extra))
    tasks = sorted(records.tasks, key=lambda task: task.start_ns)
    kernels = [task for task in tasks if task.kind in ("kernel", "collective")]
    tables.write_csv(folder / "op_summary.csv", [*SUMMARY_COLUMNS, *extra], (_summary(task) + rest for task in kernels))
    tables.task_time(folder / "task_time.csv", records.tasks)
    tables.op_statistic(folder / "op_statistic.csv", records.tasks)
    tables.api_statistic(folder / "api_statistic.csv", records.calls)
    bits = config.get("bits", 0)
    if bits & 0x40:
        tables.step_trace_time(folder / "step_trace.csv", records)
    if bits & 0x10:
        tables.l2_rates(folder / "l2_cache.csv", kernels)


def _summary(task: Any) -> list[Any]:
    unknown, shown = names.UNKNOWN, names.shown(task)
    wait = tables.us(max(task.start_ns - task.enqueue_ns, 0)) if task.enqueue_ns else unknown
    head = [task.device, unknown, unknown, task.task, task.stream, unknown, shown, names.operator_type(task), "dynamic"]
    times = [names.core(task), tables.stamp(task.start_ns), tables.us(task.end_ns - task.start_ns), wait]
    return [*head, *times, unknown, "NO", unknown, *tables.tensors(task), unknown]


if __name__ == "__main__":
    sys.exit(main())
