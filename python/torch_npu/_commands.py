"""Commands of the package that need no torch, and are wanted just where it is broken: `python -m torch_npu.doctor` and `npu-smi`.

    run_if_asked()  # the first thing that the package does
    sys.exit(run("torch_npu.utils.collect_env", main))  # a command that does need torch

Python imports a package before it runs a module of it. If the process was started for one of these commands, it is run here and
the process ends with its status; otherwise nothing happens.
"""

import contextlib
import importlib
import os
import sys
from pathlib import Path

_BY_MODULE = {"torch_npu.doctor": "doctor", "torch_npu.tools.smi": "tools.smi"}
_BY_SCRIPT = {"npu-smi": "tools.smi"}


def run_if_asked():
    module = _asked(sys.orig_argv)
    if module is not None:
        raise SystemExit(
            run(f"{__package__}.{module}", lambda: importlib.import_module(f".{module}", __package__).main(sys.argv[1:]))
        )


def run(name, main):
    """The status of a command. Output that cannot be written is a line on stderr, or nothing, and status 1."""
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 (until the process ends)
    if sys.stdout is None:
        return _tell(name, "the standard output is closed")
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a notebook's has not
            stream.reconfigure(errors="backslashreplace")  # a name that the encoding lacks is shown by its number
    try:
        status = _status(main)
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        status = 130
    except BrokenPipeError:
        status = 1  # `| head`, which has seen enough
    except OSError as error:
        status = _tell(name, error)
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python writes the rest at its end
    return status


def _status(main):
    try:
        return main()
    except SystemExit as end:  # of argparse
        return end.code


def _tell(name, reason):
    with contextlib.suppress(OSError):
        print(f"{name}: {reason}", file=sys.stderr, flush=True)
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
