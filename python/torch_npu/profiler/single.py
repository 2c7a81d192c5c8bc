"""Times one operator on npu and on the CPU.

time_operator(torch.topk, torch.randn(1000, 1000), 5)     # Times(npu_us=..., cpu_us=...)
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from statistics import median
from typing import Any, NamedTuple

import torch


class Times(NamedTuple):
    """Medians of one call, in microseconds."""

    npu_us: float
    cpu_us: float


def time_operator(operator: Callable[..., Any], *args: Any, repeat: int = 20, **kwargs: Any) -> Times:
    """Calls the operator, a function or a module, with copies of the tensors on each device, and waits for the device after each
    call. The first call costs more and is not counted."""
    if not isinstance(repeat, int) or repeat < 1:
        raise ValueError(f"time_operator: repeat must be at least 1, not {repeat!r}")
    return Times(*(_time(operator, device, repeat, args, kwargs) for device in ("npu", "cpu")))


def _time(operator: Callable[..., Any], device: str, repeat: int, args: Any, kwargs: Any) -> float:
    def moved(value: Any) -> Any:
        return value.detach().to(device, copy=True) if isinstance(value, torch.Tensor) else value

    if isinstance(operator, torch.nn.Module):
        operator = copy.deepcopy(operator).to(device)
    args, kwargs = torch.utils._pytree.tree_map(moved, (args, kwargs))
    times = []
    for _ in range(repeat + 1):
        start = time.perf_counter_ns()
        operator(*args, **kwargs)
        if device == "npu":
            torch.npu.synchronize()
        times.append(time.perf_counter_ns() - start)
    return median(times[1:]) / 1000
