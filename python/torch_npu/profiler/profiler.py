"""The profiler, and the handler that writes its traces (see torch_npu.profiler)."""

from __future__ import annotations

import atexit
import errno
import json
import os
import socket
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
import torch.profiler
from torch.profiler import ProfilerActivity

from .._api_status import no_op
from .collect import GARBAGE_COLLECTION, Recorder, host_records
from .experimental_config import ProfilerLevel, _ExperimentalConfig
from .folder import make_folder, moment, new_prof_folder, read_any, write_ascend_pt, write_info, write_output
from .links import link
from .profiler_interface import supported_activities
from .ranks import process_groups
from .records import NotAProfile, Records, said, write_raw

_SETTINGS = ("record_shapes", "profile_memory", "with_stack", "with_flops", "with_modules")
_IN_STACKS = str.maketrans(" ;\t\n", "____")

__all__ = ["analyse", "profile", "supported_activities", "tensorboard_trace_handler"]


class profile(torch.profiler.profile):
    """torch.profiler.profile for all threads. custom_trace_id_callback returns the name of a trace.

    With profile_memory, only operators of the calling thread and of the backward pass are recorded, because torch reports
    allocations only to a profiler of one thread. Tasks of the device and calls of AscendCL are recorded for all threads."""

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
        given = supported_activities() if activities is None else activities
        activities = set(given) if isinstance(given, Iterable) else set()
        if not activities or not activities <= supported_activities():
            raise ValueError(
                f"profile: activities must be a list of ProfilerActivity.CPU and ProfilerActivity.NPU, not {given!r}"
            )
        for name, value in (("schedule", schedule), ("on_trace_ready", on_trace_ready)):
            if value is not None and not callable(value):
                raise TypeError(f"profile: {name} must be callable, not {value!r}")
        if experimental_config is not None and not isinstance(experimental_config, _ExperimentalConfig):
            raise TypeError(
                f"profile: experimental_config must be a torch_npu.profiler._ExperimentalConfig, not {experimental_config!r}"
            )
        if use_cuda is not None:
            warnings.warn("profile: use_cuda has no effect on npu; activities say what is recorded", stacklevel=2)
        self.npu_config = experimental_config or _ExperimentalConfig()
        self.npu_records: Records | None = None  # records of the device, after stop
        self.npu_metadata: dict[str, Any] = {}
        self._started, self._process = False, 0
        self._error: RuntimeError | None = None  # of the device, to be raised when the trace is written
        self._is_cycle = False
        self._recorder: Recorder | None = None
        super().__init__(
            activities=activities,
            schedule=schedule,
            on_trace_ready=on_trace_ready,
            record_shapes=record_shapes,
            profile_memory=profile_memory,
            with_stack=with_stack,
            with_flops=with_flops,
            with_modules=with_modules,
            experimental_config=torch._C._profiler._ExperimentalConfig(profile_all_threads=not profile_memory),
            custom_trace_id_callback=custom_trace_id_callback,
        )

    def start(self) -> None:
        if self._started:
            raise RuntimeError("profile.start: this profiler is already running; call stop() first")
        super().start()
        self._started, self._process = True, os.getpid()
        atexit.register(self._stop_at_exit)

    def step(self) -> None:
        if not self._started:
            raise RuntimeError(
                "profile.step: this profiler is not running; call start() first, or use `with profile(...) as prof:`"
            )
        self._end_cycle(super().step)

    def stop(self) -> None:
        if not self._started:
            raise RuntimeError("profile.stop: this profiler is not running; call start() first")
        self._started = False
        atexit.unregister(self._stop_at_exit)
        self._end_cycle(super().stop)

    def _stop_at_exit(self) -> None:
        """Completes the profile of a program that ends without stop(). A forked child has no records of its own."""
        if self._process != os.getpid():
            return
        try:
            self.stop()
        except Exception as error:
            warnings.warn(f"profile: the profile could not be completed: {said(error)}", stacklevel=2)

    def _end_cycle(self, end: Callable[[], None]) -> None:
        """Ends a cycle. An error of the device is raised after the call of on_trace_ready."""
        self._is_cycle = True
        try:
            end()
        finally:
            self._is_cycle = False
            error, self._error = self._error, None
        if error is not None:
            raise error

    def start_trace(self) -> None:
        recorder = None
        if ProfilerActivity.PrivateUse1 in self.activities:
            with_calls = self.npu_config.profiler_level != ProfilerLevel.Level_none
            recorder = Recorder(with_calls, gc_milliseconds=self.npu_config.gc_detect_threshold)
        try:
            super().start_trace()
        except BaseException:
            if recorder is not None:
                recorder.stop()
            raise
        self._recorder = recorder

    def stop_trace(self) -> None:
        """Ends the recording. Raises afterwards an error of the device that no call has raised, or Ctrl-C of the wait."""
        error = None
        recorder, self._recorder = self._recorder, None
        try:
            if recorder is not None:
                error = recorder.wait()
        finally:
            try:
                if recorder is not None:
                    self.npu_records = _chosen(recorder.read(), self.npu_config)
            finally:
                super().stop_trace()
        if error is not None and not self._is_cycle:
            raise error
        self._error = error

    def export_chrome_trace(self, path: str, *args: Any, **kwargs: Any) -> None:
        """Writes torch's trace of the last recording."""
        if self.profiler is None or self.profiler.kineto_results is None:
            raise RuntimeError("profile.export_chrome_trace: there is no trace yet; call stop() first")
        super().export_chrome_trace(path, *args, **kwargs)

    def add_metadata(self, key: str, value: str) -> None:
        """Adds a text to profiler_metadata.json and to torch's trace."""
        _check_texts("add_metadata", key, value)
        super().add_metadata(key, value)
        self.npu_metadata[key] = value

    def add_metadata_json(self, key: str, value: str) -> None:
        """The same with JSON as a text. What is no JSON is kept as a text: it would damage torch's trace."""
        _check_texts("add_metadata_json", key, value)
        try:
            self.npu_metadata[key] = json.loads(value)
        except ValueError:
            self.add_metadata(key, value)
            return
        super().add_metadata_json(key, value)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Writes a line "OUTER;...;INNER MICROSECONDS" for each stack. metric: self_cpu_time_total or self_npu_time_total."""
        if metric not in ("self_cpu_time_total", "self_npu_time_total"):
            raise ValueError(f"export_stacks: metric must be self_cpu_time_total or self_npu_time_total, but is {metric!r}")
        if self.profiler is None or not self.with_stack:
            raise RuntimeError("export_stacks: there are no stacks; record first, with profile(with_stack=True)")
        times: dict[str, int] = defaultdict(int)
        for node in link(host_records(self.profiler.kineto_results, self.npu_records)).nodes:
            if node.operator.kind == "operator" and (frames := node.frames()):
                stack = ";".join(frame.translate(_IN_STACKS) for frame in reversed(frames))
                times[stack] += node.host_self if metric == "self_cpu_time_total" else node.device_self
        lines = [f"{stack} {time // 1000}\n" for stack, time in times.items() if time >= 1000]
        Path(path).write_text("".join(lines))

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
    """For on_trace_ready: writes WORKER_TIME_ascend_pt under dir_name (docs/profiling.md lists its files).

    dir_name: the working directory by default. worker_name: host name and PID by default. analyse_flag=False writes only the raw
    records; analyse() makes the other files from them. async_mode has no effect: the files are always written at once."""
    for name, value in (("analyse_flag", analyse_flag), ("async_mode", async_mode)):
        if not isinstance(value, bool):
            raise TypeError(f"tensorboard_trace_handler: {name} must be True or False, not {value!r}")
    worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
    if os.sep in worker:
        raise ValueError(f"tensorboard_trace_handler: worker_name is part of a file name, and cannot be {worker!r}")
    folder = Path(dir_name or ".").absolute()  # the program may change its working directory
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(error.errno, f"tensorboard_trace_handler: {folder} cannot be made: {error.strerror}") from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise OSError(errno.EACCES, f"tensorboard_trace_handler: {folder} cannot be written: permission denied")

    def write(prof: Any) -> None:
        if getattr(prof, "profiler", None) is None:
            raise RuntimeError(
                "tensorboard_trace_handler: there is no trace yet; give the handler as on_trace_ready of a profiler"
            )
        records = host_records(prof.profiler.kineto_results, getattr(prof, "npu_records", None))
        records.info["settings"] = {name: getattr(prof, name) for name in _SETTINGS}
        records.info["metadata"] = {**getattr(prof, "npu_metadata", {}), **process_groups()}
        config = getattr(prof, "npu_config", None) or _ExperimentalConfig()
        if records.dropped:
            lost = f"{records.dropped} records of the device did not fit; record fewer steps"
            warnings.warn(f"tensorboard_trace_handler: {lost}", stacklevel=2)
        target = folder / f"{worker}_{moment()}_ascend_pt"
        while target.exists():  # another rank with this worker_name has made it
            target = folder / f"{worker}_{moment()}_ascend_pt"
        if analyse_flag:
            write_ascend_pt(target, records, config)
        else:
            make_folder(target)
            write_raw(new_prof_folder(target), records)
            write_info(target, records, config)

    return write


def analyse(profiler_path: str, max_process_number: int = 320, export_type: Any = None) -> None:
    """Writes ASCEND_PROFILER_OUTPUT anew in each *_ascend_pt folder of profiler_path. max_process_number has no effect."""
    root = Path(profiler_path).absolute()  # "." is the name of a folder, too
    folders = [root] if root.name.endswith("_ascend_pt") else sorted(root.glob("*_ascend_pt"))
    if not folders:
        raise NotAProfile(f"analyse: {root} contains no folder *_ascend_pt; give the folder of tensorboard_trace_handler")
    for each in folders:
        stored = _stored_config(each)
        chosen = stored.export_type if export_type is None else _ExperimentalConfig(export_type=export_type).export_type
        write_output(each, read_any(each), stored, chosen)


def _stored_config(folder: Path) -> _ExperimentalConfig:
    for path in folder.glob("profiler_info_*.json"):
        try:
            stored = json.loads(path.read_text())["config"]["experimental_config"]
            return _ExperimentalConfig(**{name[1:]: value for name, value in stored.items()})
        except (ValueError, KeyError, TypeError, AttributeError):
            raise NotAProfile(f"analyse: {path} is damaged or of another version; record the profile again") from None
    return _ExperimentalConfig()


def _check_texts(function: str, key: Any, value: Any) -> None:
    for name, given in (("key", key), ("value", value)):
        if not isinstance(given, str):
            raise TypeError(f"profile.{function}: {name} must be a text, not {given!r}")


def _chosen(records: Records | None, config: _ExperimentalConfig) -> Records | None:
    """The records without marks of mstx, unless the settings select them and their domain."""
    if records is None:
        return None
    include, exclude = config.mstx_domain_include, config.mstx_domain_exclude
    records.marks = [
        mark
        for mark in records.marks
        if mark.domain == GARBAGE_COLLECTION
        or (config.tx_enabled and (not include or mark.domain in include) and mark.domain not in exclude)
    ]
    return records
