"""The profiler, and the handler that writes its traces (see torch_npu.profiler)."""

from __future__ import annotations

import os
import socket
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch.profiler

from .._api_status import no_op, not_offered
from .experimental_config import _ExperimentalConfig
from .profiler_interface import supported_activities

__all__ = ["analyse", "profile", "supported_activities", "tensorboard_trace_handler"]


class profile(torch.profiler.profile):
    """torch.profiler.profile for all threads. custom_trace_id_callback returns the name of a trace."""

    def __init__(
        self,
        *,
        activities: Iterable[Any] | None = None,
        schedule: Callable[[int], Any] | None = None,
        on_trace_ready: Callable[[Any], Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: _ExperimentalConfig | None = None,
        custom_trace_id_callback: Callable[[], str] | None = None,
        use_cuda: bool | None = None,
    ) -> None:
        activities = set(supported_activities() if activities is None else activities)
        if not activities or not activities <= supported_activities():
            raise ValueError("profile: activities must be of ProfilerActivity.CPU and ProfilerActivity.NPU, as a list")
        for name, value in (("schedule", schedule), ("on_trace_ready", on_trace_ready)):
            if value is not None and not callable(value):
                raise TypeError(f"profile: {name} must be callable, not {value!r}")
        if experimental_config is not None and not isinstance(experimental_config, _ExperimentalConfig):
            raise TypeError(
                f"profile: experimental_config must be a torch_npu.profiler._ExperimentalConfig, not {experimental_config!r}"
            )
        if use_cuda is not None:
            warnings.warn("profile: use_cuda has no effect on npu; activities say what is recorded", stacklevel=2)
        if torch.profiler.ProfilerActivity.CPU not in activities:
            warnings.warn(
                "profile: records of the device are not made yet; add ProfilerActivity.CPU for those of the host", stacklevel=2
            )
        super().__init__(
            activities=activities,
            schedule=schedule,
            on_trace_ready=on_trace_ready,
            record_shapes=record_shapes,
            profile_memory=profile_memory,
            with_stack=with_stack,
            with_flops=with_flops,
            with_modules=with_modules,
            experimental_config=torch._C._profiler._ExperimentalConfig(profile_all_threads=True),
            custom_trace_id_callback=custom_trace_id_callback,
        )

    @classmethod
    @no_op("every thread is recorded")
    def enable_profiler_in_child_thread(
        cls,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
    ) -> None:
        given = {"record_shapes": record_shapes, "profile_memory": profile_memory, "with_stack": with_stack}
        for name, value in {**given, "with_flops": with_flops, "with_modules": with_modules}.items():
            if not isinstance(value, bool):
                raise TypeError(f"enable_profiler_in_child_thread: {name} must be True or False, not {value!r}")

    @classmethod
    @no_op("every thread is recorded until the profiler stops")
    def disable_profiler_in_child_thread(cls) -> None:
        pass


def tensorboard_trace_handler(
    dir_name: str | None = None, worker_name: str | None = None, analyse_flag: bool = True, async_mode: bool = False
) -> Callable[[Any], None]:
    """For on_trace_ready: writes WORKER_TIME_ascend_pt/ASCEND_PROFILER_OUTPUT/trace_view.json, a Chrome trace, under dir_name.

    dir_name: the working directory by default. worker_name: host name and PID by default. analyse_flag and async_mode have no
    effect: the trace is written at once."""
    for name, value in (("analyse_flag", analyse_flag), ("async_mode", async_mode)):
        if not isinstance(value, bool):
            raise TypeError(f"tensorboard_trace_handler: {name} must be True or False, not {value!r}")
    worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
    if os.sep in worker:
        raise ValueError(f"tensorboard_trace_handler: worker_name is part of a file name, and cannot be {worker!r}")
    folder = Path(dir_name or ".")
    folder.mkdir(parents=True, exist_ok=True)

    def write(prof: Any) -> None:
        now = time.time()
        moment = time.strftime("%Y%m%d%H%M%S", time.localtime(now)) + f"{int(now * 1000) % 1000:03}"
        output = folder / f"{worker}_{moment}_ascend_pt" / "ASCEND_PROFILER_OUTPUT"
        output.mkdir(parents=True)
        prof.export_chrome_trace(str(output / "trace_view.json"))

    return write


@not_offered("tensorboard_trace_handler writes complete traces, which need no analysis")
def analyse(profiler_path: str, max_process_number: int = 320, export_type: Any = None) -> None: ...
