"""Runs a program until it ends, fails, or has done enough steps.

    outcome = run_script(Path("train.py"), ["--epochs", "1"], Limits(steps=2, seconds=300))
    outcome.ended                     # finished, stopped or failed
    outcome.said                      # one sentence; outcome.traceback for a failure

A step is a step() of an optimizer. The script is __main__, has its own sys.argv, and its standard output goes to standard error.
"""

from __future__ import annotations

import contextlib
import os
import runpy
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook


@dataclass(frozen=True)
class Limits:
    steps: int = 0  # 0: no limit
    seconds: float = 0


@dataclass(frozen=True)
class Outcome:
    ended: str  # finished, stopped or failed
    said: str
    steps: int
    traceback: str = ""


class Stopped(BaseException):
    """Ends a program. No Exception, so that `except Exception` of the program does not catch it."""


def run_script(path: Path, arguments: list[str], limits: Limits) -> Outcome:
    """Runs a script as `python path arguments` does."""
    old = sys.argv, list(sys.path)
    sys.argv = [str(path), *arguments]
    sys.path.insert(0, str(path.resolve().parent))
    try:
        return run(lambda: runpy.run_path(str(path), run_name="__main__"), limits, path)
    finally:
        sys.argv, sys.path[:] = old


def run(program: Callable[[], Any], limits: Limits, file: Path | None = None) -> Outcome:
    steps = 0

    def count(*_: Any) -> None:
        nonlocal steps
        steps += 1
        if limits.steps and steps >= limits.steps:
            raise Stopped(f"stopped after {steps} step{'s' if steps > 1 else ''} of an optimizer (--max-steps)")

    hook = register_optimizer_step_post_hook(count)
    try:
        with contextlib.redirect_stdout(sys.stderr), _alarm(limits.seconds):
            program()
    except Stopped as end:
        return Outcome("stopped", str(end), steps)
    except SystemExit as end:
        if end.code in (None, 0):
            return Outcome("finished", "the program ended", steps)
        return Outcome("failed", f"the program ended with sys.exit({end.code!r})", steps)
    except KeyboardInterrupt:
        return Outcome("stopped", "interrupted from the keyboard", steps)
    except BaseException as error:
        place = _place(error, file)
        said = f"{type(error).__name__}{place}: {str(error).splitlines()[0] if str(error) else ''}"
        return Outcome("failed", said, steps, _traceback(error))
    finally:
        hook.remove()
        torch.set_default_device(None)
    return Outcome("finished", "the program ended", steps)


@contextlib.contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    if not seconds or threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: Any) -> None:
        signal.setitimer(signal.ITIMER_REAL, 5)  # again, if the program catches everything
        raise Stopped(f"stopped after {seconds:g} seconds (--time-limit)")

    old = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


def _place(error: BaseException, file: Path | None) -> str:
    """` at train.py:7`: the last line of the program's own file in the traceback."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if file is not None and _same(frame.filename, file)]
    if isinstance(error, SyntaxError) and error.filename:
        return f" at {error.filename}:{error.lineno}"
    return f" at {file}:{frames[-1].lineno}" if frames else ""


def _same(name: str, file: Path) -> bool:
    return os.path.realpath(name) == os.path.realpath(file)


def _traceback(error: BaseException) -> str:
    """Without the frames of this tool."""
    tool = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    summary = traceback.TracebackException.from_exception(error)
    kept = [frame for frame in summary.stack if not frame.filename.startswith((tool, "<frozen runpy>"))]
    summary.stack[:] = kept
    return "".join(summary.format())
