"""`python -m torch_npu.tools.verify`: see command.py."""

from __future__ import annotations

import sys

from ..._commands import run
from .command import main

sys.exit(run("torch_npu.tools.verify", main))
