"""Records one step of a training loop and then ends the program.

    profile = Profile(start_step=10, save_path="./npu_profiling", profile_type="TORCH")
    for batch in loader:
        profile.start()
        train(batch)
        profile.end()     # after the tenth step: writes the trace and calls sys.exit()

profile_type selects the profiler: torch.autograd.profiler for TORCH (use_npu=False records only the host), torch_npu.profiler for
ASCEND_PROFILER, torch.npu.profile for CANN and GE. None records nothing and does not end the program. All calls of Profile return
the same object. The environment variable PROFILE_START_STEP replaces start_step. PROFILE_TYPE is used if profile_type is None.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

from .. import profiler

_OPTIONS = {
    "TORCH": {"enabled", "use_cuda", "record_shapes", "with_flops", "profile_memory", "with_stack", "use_kineto", "use_cpu"},
    "CANN": {"use_e2e_profiler", "config"},
    "GE": {"use_e2e_profiler", "config"},
    "ASCEND_PROFILER": {"activities", "schedule", "record_shapes", "profile_memory", "with_stack"},
}


def Singleton(cls: type) -> Callable[..., Any]:
    """Class decorator: the first call makes the object, later calls return it."""

    made: list[Any] = []

    def get(*args: Any, **kwargs: Any) -> Any:
        if not made:
            made.append(cls(*args, **kwargs))
        return made[0]

    return get


class _Profile:
    def __init__(
        self,
        start_step: int = 10,
        save_path: str = "./npu_profiling",
        profile_type: str | None = None,
        use_npu: bool = True,
        record_shape: bool = True,
        experimental_config: Any = None,
        **kwargs: Any,
    ) -> None:
        profile_type = profile_type or os.environ.get("PROFILE_TYPE") or None
        if profile_type not in (None, *_OPTIONS):
            raise ValueError(f"Profile: profile_type must be None, {', '.join(_OPTIONS)}, not {profile_type!r}")
        word = os.environ.get("PROFILE_START_STEP", "")
        if word:
            if not word.isdigit() or int(word) < 1:
                raise ValueError(f"Profile: PROFILE_START_STEP must be a whole number of at least 1, not {word!r}")
            start_step = int(word)
        unknown = set(kwargs) - _OPTIONS.get(profile_type or "", set(kwargs))
        if unknown:
            allowed = ", ".join(sorted(_OPTIONS[profile_type or ""]))
            raise ValueError(f"Profile: {profile_type} has no option {', '.join(sorted(unknown))}; it takes {allowed}")
        self.start_step, self.save_path, self.profile_type = start_step, save_path, profile_type
        self._step, self._in_step = 0, False
        if profile_type:
            os.makedirs(save_path, exist_ok=True)
        if profile_type == "TORCH":
            use_npu = use_npu and not kwargs.get("use_cuda", False)
            self.prof = torch.autograd.profiler.profile(**{"record_shapes": record_shape, "use_npu": use_npu, **kwargs})
        elif profile_type in ("CANN", "GE"):
            self.prof = torch.npu.profile(save_path, **{"use_e2e_profiler": False, **kwargs})
        elif profile_type == "ASCEND_PROFILER":
            self.prof = profiler.profile(
                on_trace_ready=profiler.tensorboard_trace_handler(save_path),
                experimental_config=experimental_config,
                **{"record_shapes": record_shape, **kwargs},
            )

    def start(self) -> None:
        """Begins a step."""
        if self._in_step:
            raise RuntimeError("Profile: start() was called twice; call end() after each step")
        self._in_step = True
        self._step += 1
        if self.profile_type and self._step == self.start_step:
            self.prof.__enter__()

    def end(self) -> None:
        """Ends a step. After the recorded step it writes the trace and ends the program."""
        if not self._in_step:
            raise RuntimeError("Profile: end() was called without start()")
        self._in_step = False
        if not self.profile_type or self._step != self.start_step:
            return
        self.prof.__exit__(None, None, None)
        if self.profile_type == "TORCH":
            name = time.strftime("torch_prof_%Y%m%d%H%M%S.json")
            self.prof.export_chrome_trace(os.path.join(self.save_path, name))
        sys.exit()


Profile = Singleton(_Profile)
