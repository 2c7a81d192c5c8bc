"""`python -m torch_npu.tools.coverage` is `python -m torch_npu.coverage`."""

from __future__ import annotations

import sys

from ..._commands import run
from .command import main

sys.exit(run("torch_npu.coverage", main))
