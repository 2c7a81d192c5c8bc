"""Runs programs in this process. The device has the settings of the first program."""

import gc
import os
import tempfile
import traceback
from pathlib import Path

from . import printing, settings
from .generation import generate


def program_of(seed):
    return generate(seed, settings.of(seed).profile)


def prepare(seed):
    """Applies the settings of the seed; the device reads them at its first use. Its memory is not shared with other processes."""
    for name, value in settings.of(seed).environment.items():
        os.environ[name] = value
    name = f"process-{os.getpid()}"
    ledger = Path(os.environ.get("SOFTNPU_LEDGER_DIR", tempfile.gettempdir()))
    if ledger.name != name:
        (ledger / name).mkdir(exist_ok=True)
        os.environ["SOFTNPU_LEDGER_DIR"] = str(ledger / name)


def failure(program, environment):
    """Runs a program and returns a description of its failure, or None."""
    text = printing.PRELUDE + printing.body(program, environment)
    space = {"__name__": "program"}
    found = None
    try:
        exec(compile(text, f"<seed {program.seed}>", "exec"), space)
    except BaseException as error:
        found = _describe(error, text, program.seed)
        del error
    space.clear()
    left = left_behind()
    return found or left


def _describe(error, text, seed):
    """The error, and the line of the program that raised it."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == f"<seed {seed}>"]
    shown = [text.splitlines()[number - 1] for number in lines]
    return f"{type(error).__name__}: {error}\nin: {' -> '.join(shown)}"


def left_behind():
    """Checks that a program left no memory in use and none that cannot be released. Resets the device for the next program."""
    import torch

    try:
        gc.collect()
        devices = range(torch.npu.device_count())
        for device in devices:
            torch.npu.synchronize(device)
        torch.npu.set_per_process_memory_fraction(1.0)
        torch.npu.empty_cache()
    except RuntimeError as error:
        return f"the device does not work after the program: {error}"
    used, reserved = (sum(map(count, devices)) for count in (torch.npu.memory_allocated, torch.npu.memory_reserved))
    if used or reserved:
        return f"{used} bytes are allocated and {reserved} reserved after the program"
    return None
