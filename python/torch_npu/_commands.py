"""Commands of the package that need no torch, and are wanted just where it is broken: `python -m torch_npu.doctor` and `npu-smi`.

    run_if_asked()  # the first thing that the package does

Python imports a package before it runs a module of it. If the process was started for one of these commands, it is run here and
the process ends with its status; otherwise nothing happens.
"""

import importlib
import os
import sys
from pathlib import Path

_BY_MODULE = {"torch_npu.doctor": "doctor", "torch_npu.tools.smi": "tools.smi"}
_BY_SCRIPT = {"npu-smi": "tools.smi"}


def run_if_asked():
    module = _asked(sys.orig_argv)
    if module is not None:
        raise SystemExit(_run(module))


def _run(module):
    try:
        status = importlib.import_module(f".{module}", __package__).main(sys.argv[1:])
        sys.stdout.flush()
        return status
    except OSError as error:
        if not isinstance(error, BrokenPipeError):  # that is `| head`, which has seen enough
            print(f"{__package__}.{module}: {error}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python writes the rest at its end
        return 1


def _asked(command):
    """The module that a command line starts, or None. Options of Python may stand before it."""
    words = iter(command[1:])
    for word in words:
        if word == "-m":
            return _BY_MODULE.get(next(words, None))
        if word == "-c":
            return None
        if word in ("-X", "-W"):
            next(words, None)
        elif not word.startswith("-"):
            return _BY_SCRIPT.get(Path(word).name)
    return None
