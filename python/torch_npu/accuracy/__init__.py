"""Finds the operator that gives wrong numbers. docs/accuracy.md is the guide.

python -m torch_npu.accuracy train.py          # compares operators of an unedited program with float64 on the CPU

debugger = torch_npu.accuracy.PrecisionDebugger(config_path="config.json")
debugger.start(model); step(); debugger.stop(); debugger.step()    # dump.json, stack.json, construct.json and .pt files
"""

from __future__ import annotations

from ._debugger import PrecisionDebugger, seed_all
from ._shadow import beyond_bound

__all__ = ["PrecisionDebugger", "beyond_bound", "seed_all"]
