"""Which steps are recorded."""

import torch.profiler
from torch.profiler import ProfilerAction

__all__ = ["ProfilerAction", "Schedule"]


class Schedule:
    """Leaves out the first skip_first steps; then, `repeat` times or for ever (0), waits, warms up and records that many steps.

    With skip_first_wait the first cycle does not wait. Called with the number of a step, it gives what is done in that step."""

    def __init__(self, wait, active, warmup=0, repeat=0, skip_first=0, skip_first_wait=0):
        steps = {"wait": wait, "active": active, "warmup": warmup, "repeat": repeat, "skip_first": skip_first}
        for name, value in {**steps, "skip_first_wait": skip_first_wait}.items():
            least = 1 if name == "active" else 0
            if not isinstance(value, int) or value < least:
                raise ValueError(f"schedule: {name} must be a whole number of at least {least}, not {value!r}")
        self._action = torch.profiler.schedule(**steps, skip_first_wait=skip_first_wait)

    def __call__(self, step):
        if step < 0:
            raise ValueError(f"schedule: a step must be at least 0, not {step}")
        return self._action(step)
