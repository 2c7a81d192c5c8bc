"""The schedule of recorded steps."""

from __future__ import annotations

import torch.profiler
from torch.profiler import ProfilerAction

__all__ = ["ProfilerAction", "Schedule"]


class Schedule:
    """Skips skip_first steps. Then repeats a cycle of `wait`, `warmup` and `active` steps, `repeat` times or without end (0).

    With skip_first_wait the first cycle has no wait. Calling the object with the number of a step returns the action of that
    step."""

    def __init__(
        self, wait: int, active: int, warmup: int = 0, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
    ) -> None:
        steps = {"wait": wait, "active": active, "warmup": warmup, "repeat": repeat, "skip_first": skip_first}
        for name, value in {**steps, "skip_first_wait": skip_first_wait}.items():
            least = 1 if name == "active" else 0
            if not isinstance(value, int) or value < least:
                raise ValueError(f"schedule: {name} must be a whole number of at least {least}, not {value!r}")
        self._action = torch.profiler.schedule(**steps, skip_first_wait=skip_first_wait)

    def __call__(self, step: int) -> ProfilerAction:
        if step < 0:
            raise ValueError(f"schedule: a step must be at least 0, not {step}")
        return self._action(step)
