"""Loads the library of the software device without torch and without starting a device.

for device in usage().devices: print(device.number, device.used, device.total)
"""

from __future__ import annotations

import ctypes
import os
import time
from dataclasses import dataclass, field
from pathlib import Path

import torch_npu

_LIBRARY = "libascendcl.so"
_REPLY = 4 << 20


class Unavailable(Exception):
    """The software device is missing or does not answer; the text says why and what to do."""


@dataclass
class Process:
    pid: int
    start: int
    memory: int
    name: str


@dataclass
class Device:
    """A device of the host, also if ASCEND_RT_VISIBLE_DEVICES hides it. Sizes are bytes; `busy` is a share from 0 to 1."""

    number: int
    used: int
    total: int
    busy: float | None = None
    processes: list[Process] = field(default_factory=list)


@dataclass
class Usage:
    chip: str
    host_memory: int
    devices: list[Device]


def usage(seconds: float = 0.0) -> Usage:
    """The memory of all processes of this user, and how busy the streams are during the next `seconds`."""
    library = _load()
    before = _parse(_control(library, "usage"))
    if seconds <= 0:
        return before[0]
    time.sleep(seconds)
    after, times = _parse(_control(library, "usage"))
    for device, (busy, now), (busy_before, then) in zip(after.devices, times, before[1], strict=True):
        device.busy = min(max((busy - busy_before) / (now - then), 0.0), 1.0)
    return after


def find_library() -> Path | None:
    """The path of the softnpu library that the plugin would load, or None. CANN is not searched for."""
    asked = os.environ.get("TORCH_NPU_LIBRARY_PATH", "")
    if asked not in ("", "softnpu"):
        folders = [Path(asked, inner) for inner in ("", "lib64", "lib")]
        return next((path for path in (Path(asked), *(folder / _LIBRARY for folder in folders)) if path.is_file()), None)
    return next((path for folder in torch_npu.__path__ if (path := Path(folder, "lib", _LIBRARY)).exists()), None)


def _load() -> ctypes.CDLL:
    path = find_library()
    asked = os.environ.get("TORCH_NPU_LIBRARY_PATH", "")
    if path is None and asked not in ("", "softnpu"):
        raise Unavailable(f"TORCH_NPU_LIBRARY_PATH is {asked!r}, where there is no {_LIBRARY}; correct or unset it")
    if path is None:
        raise Unavailable(f"no {_LIBRARY} was found in {' or '.join(torch_npu.__path__)}; reinstall torch_npu")
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise Unavailable(f"{path} cannot be loaded: {error}") from None
    if not hasattr(library, "softnpuControl"):
        raise Unavailable(f"{path} is not the software device; use the npu-smi of its driver")
    library.aclGetRecentErrMsg.restype = ctypes.c_char_p
    return library


def _control(library: ctypes.CDLL, command: str) -> str:
    reply = ctypes.create_string_buffer(_REPLY)
    if library.softnpuControl(command.encode(), reply, ctypes.c_size_t(_REPLY)) != 0:
        raise Unavailable((library.aclGetRecentErrMsg() or b"the software device gave no reason").decode(errors="replace"))
    return reply.value.decode(errors="replace")


def _parse(text: str) -> tuple[Usage, list[tuple[int, int]]]:
    """The usage, and for each device (nanoseconds that its streams were busy, time of the measurement)."""
    usage, times = Usage("", 0, []), []
    for line in text.splitlines():
        kind, _, rest = line.partition(" ")
        if kind == "chip":
            usage.chip = rest
        elif kind == "host_memory":
            usage.host_memory = int(rest)
        elif kind == "device":
            number, used, total, busy, now = map(int, rest.split())
            usage.devices.append(Device(number, used, total))
            times.append((busy, now))
        elif kind == "process":
            index, pid, start, memory, name = rest.split(" ", 4)
            if int(index) < len(usage.devices):
                usage.devices[int(index)].processes.append(Process(int(pid), int(start), int(memory), name))
    return usage, times
