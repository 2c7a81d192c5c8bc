"""`python -m torch_npu.accuracy script.py`: see _command.py."""

from __future__ import annotations

import sys

from .._commands import run

if __name__ == "__main__":
    from ._command import main

    sys.exit(run("torch_npu.accuracy", main))
