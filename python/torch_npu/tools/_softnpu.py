"""The software device without torch: its library is loaded by itself, and no device is started.

for device in usage().devices: print(device.number, device.used, device.total)
"""

import ctypes
import os
import time
from dataclasses import dataclass, field
from pathlib import Path

import torch_npu

_LIBRARY = "libascendcl.so"
_REPLY = 4 << 20


class Unavailable(Exception):
    """There is no software device here, or it does not answer; the text says why and what to do."""


@dataclass
class Process:
    pid: int
    start: int
    memory: int
    name: str


@dataclass
class Device:
    """Of the host, by its own number: what ASCEND_RT_VISIBLE_DEVICES hides is there too. Bytes; `busy` is a share from 0 to 1."""

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


def usage(seconds=0.0):
    """What all processes of this user hold, and how busy streams were for so many seconds from now."""
    library = _load()
    before = _parse(_control(library, "usage"))
    if seconds <= 0:
        return before[0]
    time.sleep(seconds)
    after, times = _parse(_control(library, "usage"))
    for device, (busy, now), (busy_before, then) in zip(after.devices, times, before[1], strict=True):
        device.busy = min(max((busy - busy_before) / (now - then), 0.0), 1.0)
    return after


def find_library():
    """Where the library is that the plugin would load, if that is softnpu; CANN is not looked for."""
    asked = os.environ.get("TORCH_NPU_LIBRARY_PATH", "")
    if asked not in ("", "softnpu"):
        folders = [Path(asked, inner) for inner in ("", "lib64", "lib")]
        return next((path for path in (Path(asked), *(folder / _LIBRARY for folder in folders)) if path.is_file()), None)
    return next((path for folder in torch_npu.__path__ if (path := Path(folder, "lib", _LIBRARY)).exists()), None)


def _load():
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


def _control(library, command):
    reply = ctypes.create_string_buffer(_REPLY)
    if library.softnpuControl(command.encode(), reply, ctypes.c_size_t(_REPLY)) != 0:
        raise Unavailable((library.aclGetRecentErrMsg() or b"the software device gave no reason").decode(errors="replace"))
    return reply.value.decode(errors="replace")


def _parse(text):
    """The usage, and for each device how long its streams were busy at which time."""
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
            number, pid, start, memory, name = rest.split(" ", 4)
            if int(number) < len(usage.devices):
                usage.devices[int(number)].processes.append(Process(int(pid), int(start), int(memory), name))
    return usage, times
