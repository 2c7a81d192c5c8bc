"""torch.npu.profile and the prof_* functions. They record into a folder PROF_*, which `msprof --export=on --output=DIR` converts
into a timeline and tables. If the program is killed, the records until then can be read.

    with torch.npu.profile(profiler_result_path="./result", use_e2e_profiler=True):
        train_step()

profileConfig selects the kinds of records. use_e2e_profiler adds the operators of torch. With CANN, whose folders have another
format, the operators are in a Chrome trace FRAMEWORK_PROF_*.json beside the folder. One recording runs at a time."""

from __future__ import annotations

import atexit
import json
import os
import sys
import warnings
from pathlib import Path
from typing import Any, Literal

import torch

from .. import _C
from ._lazy import _lazy_init, is_initialized
from .fallback import fallback_stats
from .mstx import mstx

_METRICS = {0, 1, 2, 3, 4, 0xFF}
_SWITCHES = {
    "ACL_PROF_ACL_API": 0x1,
    "ACL_PROF_TASK_TIME": 0x2,
    "ACL_PROF_AICORE_METRICS": 0x4,
    "ACL_PROF_AICPU": 0x8,
    "ACL_PROF_L2CACHE": 0x10,
    "ACL_PROF_HCCL_TRACE": 0x20,
    "ACL_PROF_TRAINING_TRACE": 0x40,
}
_MSPROFTX = 0x80
_RUNTIME_API = 0x100


class profileConfig:
    """The settings of torch.npu.profile. The attributes have the names of the arguments."""

    def __init__(
        self,
        ACL_PROF_ACL_API: bool = True,
        ACL_PROF_TASK_TIME: bool = True,
        ACL_PROF_AICORE_METRICS: bool = True,
        ACL_PROF_AICPU: bool = True,
        ACL_PROF_L2CACHE: bool = False,
        ACL_PROF_HCCL_TRACE: bool = True,
        ACL_PROF_TRAINING_TRACE: bool = False,
        aiCoreMetricsType: int = 0,
    ) -> None:
        given = locals()
        self.NpuEventConfig = _RUNTIME_API
        for name, bit in _SWITCHES.items():
            value = given[name]
            if not isinstance(value, bool):
                raise TypeError(f"profileConfig: {name} must be True or False, not {value!r}")
            setattr(self, name, value)
            self.NpuEventConfig |= bit if value else 0
        _check_metrics("profileConfig: aiCoreMetricsType", aiCoreMetricsType)
        self.aiCoreMetricsType = aiCoreMetricsType
        self.AiCoreMetricsConfig = aiCoreMetricsType if ACL_PROF_AICORE_METRICS else 0xFF


def _check_metrics(name: str, value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value not in _METRICS:
        raise ValueError(f"{name} must be 0, 1, 2, 3, 4 or 255 (none), not {value!r}")


class _Session:
    """The profile of this process. libmsprofiler, of softnpu or of CANN, records the device and writes the folder PROF_*. With
    softnpu, this class adds to the folder: operators of torch, marks with domains, settings of the host."""

    def __init__(self) -> None:
        self.path: Path | None = None
        self.folder: Path | None = None  # the last result
        self._process = 0  # that of init()
        self._profile = 0  # a handle of libmsprofiler
        self._step = 0
        self._in_step = False
        self._framework: Any = None
        self._before: set[Path] = set()
        self._marks: list[Any] = []
        self._fallbacks: dict[str, int] = {}

    @property
    def running(self) -> bool:
        return self._profile != 0

    def init(self, path: str | os.PathLike[str]) -> None:
        if self.path is not None:
            raise RuntimeError(
                "prof_init: a profile is already open; end it with prof_finalize(), or leave the block of torch.npu.profile"
            )
        target = Path(path).absolute()  # the program may change its working directory
        try:
            target.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ValueError(f"the path {target} for results of the profiler cannot be made: {error.strerror}") from None
        if not os.access(target, os.W_OK | os.X_OK):
            raise ValueError(f"the path {target} for results of the profiler cannot be written: permission denied")
        _C._prof_init(str(target))
        self.path, self._process = target, os.getpid()
        atexit.register(self._end_at_exit)

    def start(self, bits: int, metrics: int, framework: bool) -> None:
        if self.path is None:
            raise RuntimeError("prof_start: no profile is open; call prof_init(path) first")
        if self.running:
            raise RuntimeError("prof_start: a recording is already active; call prof_stop() first")
        if framework and torch.autograd.profiler._is_profiler_enabled:
            raise RuntimeError(
                "prof_start: another profiler is recording, and profilers do not nest; stop it first, or record without "
                "use_e2e_profiler"
            )
        self._before = set(self.path.glob("PROF_*"))
        recorded = None
        if framework:
            recorded = torch.profiler.profile(
                activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True, with_stack=True
            )
            recorded.start()
        try:
            self._profile = _C._prof_start(_devices(), metrics, bits)
        except BaseException:
            if recorded is not None:
                recorded.stop()
            raise
        self._framework = recorded
        self._marks, self._fallbacks = mstx._listen(), dict(fallback_stats())

    def step(self, begin: bool) -> None:
        if not self.running:
            raise RuntimeError("iteration_start and iteration_end need a running profile; call prof_start() first")
        if begin and self._in_step:
            raise RuntimeError("iteration_start was called twice; call iteration_end() after each iteration")
        if not begin and not self._in_step:
            raise RuntimeError("iteration_end was called without iteration_start")
        _lazy_init()
        self._step = self._step or _C._prof_make_step()
        _C._prof_step(self._step, begin)
        self._in_step = begin

    def stop(self) -> Path:
        """Waits for the device and ends the recording, also if the wait fails. The failure of a task is raised when the folder is
        complete."""
        if not self.running or self.path is None:
            raise RuntimeError("prof_stop: no recording is active; call prof_start() first")
        profile, self._profile = self._profile, 0
        framework, self._framework = self._framework, None
        failure: Exception | None = None
        try:
            if is_initialized() and not _C._npu_captures_exist():  # a wait would end the capture
                torch.npu.synchronize()
        except Exception as error:
            failure = error
        finally:
            mstx._stop_listening(self._marks)
            try:
                if framework is not None:
                    framework.stop()
            finally:
                self._end_device(profile)
        self.folder = self._newest()
        if (self.folder / "host" / "info.json").is_file():
            self._add_host(self.folder, framework)
        elif framework is not None:
            framework.export_chrome_trace(str(self.path / f"FRAMEWORK_{self.folder.name}.json"))
        if failure is not None:
            raise failure
        return self.folder

    def finalize(self) -> None:
        if self.path is None:
            raise RuntimeError("prof_finalize: there is no profile; call prof_init(path) first")
        atexit.unregister(self._end_at_exit)
        try:
            if self.running:
                self.stop()
        finally:
            self.path = None
            _C._prof_finalize()

    def _end_at_exit(self) -> None:
        """Completes the profile of a program that ends without finalize(). A forked child has no profile of its own."""
        if self._process != os.getpid():
            return
        try:
            self.finalize()
        except Exception as error:
            warnings.warn(f"torch.npu.profile: the profile could not be completed: {error}", stacklevel=2)

    def _end_device(self, profile: int) -> None:
        step, self._step, self._in_step = self._step, 0, False
        try:
            if step:
                _C._prof_destroy_step(step)
        finally:
            _C._prof_stop(profile)

    def _newest(self) -> Path:
        """The folder that this recording has made. Other processes may make folders in the same path."""
        assert self.path is not None
        found = sorted(set(self.path.glob("PROF_*")) - self._before, key=lambda folder: folder.stat().st_mtime)
        if not found:
            raise RuntimeError(f"prof_stop: libmsprofiler has made no folder PROF_* in {self.path}")
        own = [folder for folder in found if _process_of(folder) == os.getpid()]
        return (own or found)[-1]

    def _add_host(self, folder: Path, framework: Any) -> None:
        from ..profiler.collect import host_records, host_settings
        from ..profiler.records import Mark, Records, Task, add_raw

        records = Records()
        if framework is not None:
            # The folder already has the tasks of the device. The empty task keeps host_records() from making tasks of operators.
            records = host_records(framework.profiler.kineto_results, Records(tasks=[Task("")]))
        records.marks = [Mark(*row) for row in self._marks]
        counts = {str(name): count - self._fallbacks.get(name, 0) for name, count in fallback_stats().items()}
        records.info = {"python": sys.argv[0], **host_settings(), "fallbacks": {k: n for k, n in counts.items() if n}}
        add_raw(folder, records)


def _devices() -> list[int]:
    """The devices to record: all devices of softnpu, and only the current card, because recording a card is expensive."""
    if torch.npu.library_info()["origin"] == "softnpu":
        return list(range(torch.npu.device_count()))
    return [torch.npu.current_device()]


def _process_of(folder: Path) -> int | None:
    try:
        return json.loads((folder / "host" / "info.json").read_text())["process"]
    except (OSError, ValueError, KeyError):
        return None


_session = _Session()


def records_operators() -> bool:
    """Whether torch.npu.profile is using torch's profiler."""
    return _session._framework is not None


class profile:
    """Records into a new folder PROF_* in profiler_result_path. A missing profiler_result_path is made."""

    def __init__(
        self, profiler_result_path: str = "./", use_e2e_profiler: bool = False, config: profileConfig | None = None
    ) -> None:
        if config is not None and not isinstance(config, profileConfig):
            raise TypeError(f"torch.npu.profile: config must be a torch.npu.profileConfig, not {config!r}")
        if not isinstance(use_e2e_profiler, bool):
            raise TypeError(f"torch.npu.profile: use_e2e_profiler must be True or False, not {use_e2e_profiler!r}")
        self.result_path, self.use_e2e_profiler = profiler_result_path, use_e2e_profiler
        self.config = config or profileConfig()
        self.entered = False

    def __enter__(self) -> profile:
        if self.entered:
            raise RuntimeError("torch.npu.profile: this object is already recording; make a new one for each block")
        _session.init(self.result_path)
        self.entered = True
        try:
            bits = self.config.NpuEventConfig | (_MSPROFTX if self.use_e2e_profiler else 0)
            _session.start(bits, self.config.AiCoreMetricsConfig, self.use_e2e_profiler)
        except BaseException:
            _session.finalize()
            raise
        return self

    def __exit__(self, kind: object, *_: object) -> Literal[False]:
        try:
            _session.finalize()
        except Exception as error:
            if kind is None:
                raise
            warnings.warn(f"torch.npu.profile: the profile could not be completed: {error}", stacklevel=2)
        return False


def prof_init(path: str) -> None:
    """Sets the folder of the results. A missing folder is made."""
    _session.init(path)


def prof_start(npu_event: int | None = None, aicore_metrics: int = 0) -> None:
    """Begins to record. npu_event: bits as in profileConfig.NpuEventConfig; the default are those of profileConfig()."""
    _check_metrics("prof_start: aicore_metrics", aicore_metrics)
    bits = profileConfig().NpuEventConfig if npu_event is None else npu_event
    if not isinstance(bits, int) or isinstance(bits, bool) or not 0 <= bits <= 0x1FF:
        raise ValueError(f"prof_start: npu_event must be a number from 0 to 0x1FF, not {npu_event!r}")
    _session.start(bits, aicore_metrics, framework=bool(bits & _MSPROFTX))


def prof_stop() -> None:
    """Ends the recording and writes a folder PROF_*."""
    _session.stop()


def prof_finalize() -> None:
    """Ends the profile, and a recording that still runs."""
    _session.finalize()


def iteration_start() -> None:
    """Begins an iteration of the training trace (ACL_PROF_TRAINING_TRACE)."""
    _session.step(begin=True)


def iteration_end() -> None:
    _session.step(begin=False)
