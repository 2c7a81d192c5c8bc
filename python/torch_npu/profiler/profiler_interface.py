"""The activities that can be recorded."""

from __future__ import annotations

from typing import Any

import torch.profiler


def supported_activities() -> set[Any]:
    """ProfilerActivity.CPU and ProfilerActivity.NPU."""
    return {torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.PrivateUse1}
