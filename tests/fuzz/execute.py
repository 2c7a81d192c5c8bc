"""Runs programs in this process, whose device has the settings of the first of them."""

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
    """The settings of the seed, which the device reads at its first use. Programs of other processes share no memory with it."""
    for name, value in settings.of(seed).environment.items():
        os.environ[name] = value
    name = f"process-{os.getpid()}"
    ledger = Path(os.environ.get("SOFTNPU_LEDGER_DIR", tempfile.gettempdir()))
    if ledger.name != name:
        (ledger / name).mkdir(exist_ok=True)
        os.environ["SOFTNPU_LEDGER_DIR"] = str(ledger / name)


def failure(program, environment):
    """Runs a program and gives what went wrong; None if nothing did."""
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
    """What a program must not leave: memory that is in use or cannot be given back. Sets the device back for the next one."""
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
