"""python -m torch_npu.transplant: the script transplant tool, torch_npu.tools.transplant."""

from __future__ import annotations

import sys

from ._commands import run
from .tools.transplant.cli import main

if __name__ == "__main__":
    sys.exit(run("torch_npu.transplant", main))
