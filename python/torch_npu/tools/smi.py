"""npu-smi for the software device: memory in use, load and processes of its devices.

    npu-smi info                       # the table
    npu-smi info -t memory -i 0        # one device: board, common, health, memory, proc-mem or usages
    npu-smi info --json

It shows all devices of the host and all processes of this user. It neither starts a device nor imports torch. AICore(%) is the
share of a tenth of a second in which queued tasks ran; small tasks, which run in the call that launches them, are not counted. If
the driver of a card is installed, its npu-smi is run instead, unless TORCH_NPU_LIBRARY_PATH selects softnpu. Exit status 1: the
device does not exist or does not answer; 2: wrong arguments.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..version import __version__
from . import _softnpu

_MIB = 1 << 20
_Rows = list[tuple[str, Any]]
_SAMPLE = 0.1
_UNKNOWN = "n/a"
_WIDTHS = (27, 15, 52)


def main(arguments: Sequence[str] | None = None) -> int:
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    _leave_to_driver(arguments)
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help()
        return 2
    if options.type is not None and options.number is None:
        parser.error(f"-t {options.type} needs -i and the number of an NPU")
    try:
        while True:
            usage = _softnpu.usage(_SAMPLE if _needs_busy(options) else 0)
            print(_answer(usage, options), flush=True)
            if not options.watch:
                return 0
            time.sleep(options.watch)
    except (_softnpu.Unavailable, LookupError) as error:
        print(f"npu-smi: {error.args[0]}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="npu-smi", description="Shows the devices of softnpu, the software NPU.")
    parser.add_argument("-v", "--version", action="version", version=f"npu-smi version: {__version__} (softnpu)")
    commands = parser.add_subparsers(dest="command", metavar="info")
    info = commands.add_parser("info", help="shows devices")
    form = info.add_mutually_exclusive_group()
    form.add_argument("-l", "--list", action="store_true", help="the numbers of the devices")
    form.add_argument("-m", "--map", action="store_true", help="devices, chips and their numbers")
    form.add_argument("-t", "--type", choices=sorted(_TYPES), help="what to show of one device")
    info.add_argument("-i", "--id", type=int, dest="number", metavar="ID", help="the number of a device")
    info.add_argument("-c", "--chip", type=int, default=0, metavar="ID", help="the chip of the device; there is one, 0")
    info.add_argument("-w", "--watch", type=_seconds, metavar="SECONDS", help="again and again, with pauses, until Ctrl-C")
    info.add_argument("--json", action="store_true", help="for programs")
    return parser


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0
    if not 0 < seconds < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds above 0")
    return seconds


def _needs_busy(options: argparse.Namespace) -> bool:
    return not options.list and not options.map and options.type in (None, "usages", "common")


def _answer(usage: _softnpu.Usage, options: argparse.Namespace) -> str:
    if options.number is not None:
        usage.devices = [_chosen(usage, options.number, options.chip)]
    if options.json:
        return json.dumps({"version": __version__, **asdict(usage)}, indent=2)
    if options.list:
        return _lines([("Total Count", len(usage.devices))]) + "".join(
            "\n\n" + _lines([("NPU ID", device.number), ("Chip Count", 1)]) for device in usage.devices
        )
    if options.map:
        rows: list[tuple[Any, ...]] = [("NPU ID", "Chip ID", "Chip Logic ID", "Chip Name")]
        rows += [(device.number, 0, device.number, _name(usage)) for device in usage.devices]
        return "\n".join("".join(f"{cell!s:<31}" for cell in row).rstrip() for row in rows)
    if options.type is not None:
        return _lines([("NPU ID", options.number), *_TYPES[options.type](usage, usage.devices[0])])
    return _table(usage)


def _chosen(usage: _softnpu.Usage, number: int, chip: int) -> _softnpu.Device:
    if not 0 <= number < len(usage.devices):
        raise LookupError(f"there is no NPU {number}; this host has {len(usage.devices)}, 0 to {len(usage.devices) - 1}")
    if chip != 0:
        raise LookupError(f"NPU {number} has no chip {chip}; it has one, 0")
    return usage.devices[number]


def _name(usage: _softnpu.Usage) -> str:
    return usage.chip.removeprefix("Ascend")


def _percent(share: float | None) -> str:
    return _UNKNOWN if share is None else f"{share * 100:.0f}"


def _board(usage: _softnpu.Usage, device: _softnpu.Device) -> _Rows:
    return [("Product Name", "softnpu"), ("Chip Name", _name(usage)), ("Software Version", __version__), ("Chip Count", 1)]


def _common(usage: _softnpu.Usage, device: _softnpu.Device) -> _Rows:
    return [
        ("Aicore Usage Rate(%)", _percent(device.busy)),
        ("HBM Usage Rate(%)", _percent(device.used / device.total)),
        ("Temperature(C)", _UNKNOWN),
        ("Power(W)", _UNKNOWN),
    ]


def _health(usage: _softnpu.Usage, device: _softnpu.Device) -> _Rows:
    return [("Health", "OK")]


def _memory(usage: _softnpu.Usage, device: _softnpu.Device) -> _Rows:
    return [
        ("HBM Capacity(MB)", device.total // _MIB),
        ("HBM Usage(MB)", device.used // _MIB),
        ("HBM Free(MB)", (device.total - device.used) // _MIB),
        ("Host Limit For All(MB)", usage.host_memory // _MIB),
    ]


def _process_memory(usage: _softnpu.Usage, device: _softnpu.Device) -> _Rows:
    rows: _Rows = [("Processes", len(device.processes))]
    for process in device.processes:
        rows += [("Process id", process.pid), ("Process name", process.name), ("Process memory(MB)", process.memory // _MIB)]
    return rows


def _usages(usage: _softnpu.Usage, device: _softnpu.Device) -> _Rows:
    return [
        ("HBM Capacity(MB)", device.total // _MIB),
        ("HBM Usage Rate(%)", _percent(device.used / device.total)),
        ("Aicore Usage Rate(%)", _percent(device.busy)),
        ("Aicpu Usage Rate(%)", _UNKNOWN),
        ("Ctrlcpu Usage Rate(%)", _UNKNOWN),
    ]


_TYPES = {
    "board": _board,
    "common": _common,
    "health": _health,
    "memory": _memory,
    "proc-mem": _process_memory,
    "usages": _usages,
}


def _lines(rows: Iterable[tuple[str, Any]]) -> str:
    return "\n".join(f"\t{name:<31}: {value}" for name, value in rows)


def _table(usage: _softnpu.Usage) -> str:
    whole = sum(_WIDTHS) + 2
    thin, thick = ("+" + "+".join(stroke * width for width in _WIDTHS) + "+" for stroke in "-=")
    lines = ["+" + "-" * whole + "+", _row([f"npu-smi {__version__}", "softnpu, a software device"], (33, whole - 34)), thin]
    lines += [
        _row(["NPU   Name", "Health", f"{'Power(W)':<12}{'Temp(C)':<18}Hugepages-Usage(page)"]),
        _row(["Chip", "Bus-Id", f"{'AICore(%)':<12}{'Memory-Usage(MB)':<18}HBM-Usage(MB)"]),
        thick,
    ]
    for device in usage.devices:
        used = f"{device.used // _MIB:<5}/ {device.total // _MIB}"
        lines += [
            _row([f"{device.number:<6}{_name(usage)}", "OK", f"{_UNKNOWN:<12}{_UNKNOWN:<18}{_UNKNOWN}"]),
            _row(["0", _UNKNOWN, f"{_percent(device.busy):<12}{_UNKNOWN:<18}{used}"]),
            thin,
        ]
    lines += [thin, _row(["NPU     Chip", "Process id", f"{'Process name':<25}| Process memory(MB)"]), thick]
    for device in usage.devices:
        for process in device.processes:
            memory = process.memory // _MIB
            lines.append(_row([f"{device.number:<8}0", process.pid, f"{process.name[:24]:<25}| {memory}"]))
        if not device.processes:
            lines.append(_row([f"No running processes found in NPU {device.number}"], (whole,)))
        lines.append(thin)
    return "\n".join(lines)


def _row(cells: Sequence[Any], widths: tuple[int, ...] = _WIDTHS) -> str:
    between = "|" if widths is _WIDTHS else " "
    return "|" + between.join(f" {cell!s:<{width - 1}}" for cell, width in zip(cells, widths, strict=True)) + "|"


def _leave_to_driver(arguments: Sequence[str]) -> None:
    """Replaces this process by the npu-smi of a card's driver, if there is one."""
    if os.environ.get("TORCH_NPU_LIBRARY_PATH", "") != "":
        return
    for folder in os.get_exec_path():
        path = shutil.which("npu-smi", path=folder)
        if path is not None and not _is_ours(path):
            print(f"npu-smi: this host has the driver of a card; running {path}", file=sys.stderr, flush=True)
            os.execv(path, [path, *arguments])


def _is_ours(path: str) -> bool:
    try:
        with Path(path).open("rb") as script:
            return b"torch_npu" in script.read(4096)
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(main())
