"""`python -m torch_npu.coverage script.py`: which operators run on npu. See torch_npu/tools/coverage."""

from __future__ import annotations

import sys

from ._commands import run

if __name__ == "__main__":
    from .tools.coverage.command import main

    sys.exit(run("torch_npu.coverage", main))
