"""Commands that run without torch: `python -m torch_npu.doctor` and `npu-smi`, which users need when torch is broken, and
`ms_fmk_transplt` and `msaccucmp`, which start faster without it.

    run_if_asked()  # the first statement of the package
    sys.exit(run("torch_npu.utils.collect_env", main))  # a command that needs torch

Python imports a package before it runs a module of it. If the process was started for one of these commands, run_if_asked() runs
the command and ends the process with its status. Otherwise it does nothing.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

_TRANSPLANT = "tools.transplant.cli"
_ACCURACY = "tools.accuracy.cli"
_BY_MODULE = {
    "torch_npu.doctor": "doctor",
    "torch_npu.tools.smi": "tools.smi",
    "torch_npu.tools.accuracy.cli": _ACCURACY,
    "torch_npu.tools.accuracy.msaccucmp": _ACCURACY,
    "torch_npu.transplant": _TRANSPLANT,
    "torch_npu.tools.transplant.cli": _TRANSPLANT,
}
_BY_SCRIPT = {
    "npu-smi": "tools.smi",
    "ms_fmk_transplt": _TRANSPLANT,
    "ms_fmk_transplt.py": _TRANSPLANT,
    "msaccucmp": _ACCURACY,
    "msaccucmp.py": _ACCURACY,
}


def run_if_asked() -> None:
    module = _asked(sys.orig_argv)
    if module is not None:
        raise SystemExit(
            run(f"{__package__}.{module}", lambda: importlib.import_module(f".{module}", __package__).main(sys.argv[1:]))
        )


def run(name: str, main: Callable[[], Any]) -> Any:
    """Runs a command and returns its exit status. If the output cannot be written, the status is 1 and stderr has the reason."""
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 (open until the process ends)
    if sys.stdout is None:
        return _tell(name, "the standard output is closed")
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # that of a notebook has no such method
            stream.reconfigure(errors="backslashreplace")  # characters that the encoding lacks
    try:
        status = _status(main)
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        status = 130
    except BrokenPipeError:
        status = 1  # such as `| head`
    except OSError as error:
        status = _tell(name, error)
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes the rest at exit
    return status


def _status(main: Callable[[], Any]) -> Any:
    try:
        return main()
    except SystemExit as end:  # raised by argparse
        return end.code


def _tell(name: str, reason: object) -> int:
    with contextlib.suppress(OSError):
        print(f"{name}: {reason}", file=sys.stderr, flush=True)
    return 1


def _asked(command: list[str]) -> str | None:
    """The module of the command that a command line starts, or None. Options of Python may come before it."""
    words = iter(command[1:])
    for word in words:
        if word == "-m":
            return _BY_MODULE.get(next(words, ""))
        if word == "-c":
            return None
        if word in ("-X", "-W"):
            next(words, None)
        elif not word.startswith("-"):
            return _BY_SCRIPT.get(Path(word).name)
    return None
