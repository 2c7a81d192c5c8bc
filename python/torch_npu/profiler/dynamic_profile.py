"""Profiling that is started from outside of a running program, by a change of the file profiler_config.json.

    dynamic_profile.init("folder")      # writes folder/profiler_config.json if it is missing
    for batch in loader:
        train(batch)
        dynamic_profile.step()          # looks at the file every 2 seconds

When the file changes, the next `warmup` steps are skipped and `active` steps are recorded to prof_dir. start(path) reads a file
at once. A wrong file, or a folder that cannot be written, is a warning and never an error, so that a training continues.

    PROF_CONFIG_PATH=folder python train.py      # the same for a program without these calls

Then a step ends with each step() of the first optimizer that the program uses.
"""

from __future__ import annotations

import atexit
import json
import os
import time
import warnings
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Any

from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook

from .._api_status import no_op
from .experimental_config import AiCMetrics, ExportType, HostSystem, ProfilerLevel, _ExperimentalConfig
from .profiler import profile, supported_activities, tensorboard_trace_handler
from .ranks import rank
from .scheduler import Schedule

_SECONDS = 2.0
_NAME = "profiler_config.json"
_DEFAULT: dict[str, Any] = {
    "activities": ["CPU", "NPU"],
    "prof_dir": "./",
    "analyse": True,
    "record_shapes": False,
    "profile_memory": False,
    "with_stack": False,
    "with_flops": False,
    "with_modules": False,
    "active": 1,
    "warmup": 0,
    "start_step": 0,
    "is_rank": False,
    "rank_list": [],
    "experimental_config": {},
}
_SWITCHES = ("record_shapes", "profile_memory", "with_stack", "with_flops", "with_modules")


class _State:
    def __init__(self) -> None:
        self.path: Path | None = None
        self.changed = 0
        self.looked = 0.0
        self.steps = 0
        self.prof: Any = None
        self.left = 0
        self.waiting: dict[str, Any] | None = None
        self.optimizer: weakref.ref[Optimizer] | None = None  # the first one of a program without calls of step()


_state = _State()


def init(path: str) -> None:
    """Names the folder of profiler_config.json. The file is written with defaults if it is missing."""
    folder = Path(path).absolute()  # the program may change its working directory
    file = folder / _NAME
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not file.exists():
            # Each rank calls init(). A second writer would look like a change of the file to the first one.
            with suppress(FileExistsError), file.open("x") as new:
                new.write(json.dumps(_DEFAULT, indent=1) + "\n")
        _state.changed = file.stat().st_mtime_ns
    except OSError as error:
        raise OSError(error.errno, f"dynamic_profile.init: {file} cannot be written: {error.strerror}") from None
    _state.path, _state.steps, _state.looked = file, 0, time.monotonic()


def from_environment() -> None:
    """Does what PROF_CONFIG_PATH asks for. A folder that cannot be written is a warning."""
    folder = os.environ.get("PROF_CONFIG_PATH", "")
    if not folder:
        return
    try:
        init(folder)
    except OSError as error:
        warnings.warn(f"PROF_CONFIG_PATH has no effect: {error.strerror}", stacklevel=2)
        return
    register_optimizer_step_post_hook(_after_optimizer)


def _after_optimizer(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
    if _state.optimizer is None or _state.optimizer() is None:
        _state.optimizer = weakref.ref(optimizer)
    if _state.optimizer() is optimizer:
        step()


def start(config_path: str | None = None) -> None:
    """Begins to record the next steps by a configuration file, or with the defaults."""
    config = dict(_DEFAULT) if config_path is None else _read(Path(config_path))
    if config is not None:
        _state.waiting = config


def step() -> None:
    """Ends a step. Call it after each one."""
    state = _state
    if state.path is None:
        raise RuntimeError("dynamic_profile.step: call dynamic_profile.init(path) first")
    state.steps += 1
    if state.prof is not None:
        state.left -= 1
        try:
            state.prof.step()
        except OSError as error:
            warnings.warn(f"dynamic_profile: {error.strerror}", stacklevel=2)
        finally:
            if not state.left:
                _end()
    elif state.waiting is None and time.monotonic() - state.looked >= _SECONDS:
        state.looked = time.monotonic()
        with suppress(OSError):  # an editor may be replacing the file
            changed = state.path.stat().st_mtime_ns
            if changed != state.changed:
                state.changed = changed
                state.waiting = _read(state.path)
    if state.prof is None and state.waiting is not None and state.steps >= state.waiting["start_step"]:
        config, state.waiting = state.waiting, None
        _begin(config)


@no_op("it names the state of a training for the vendor's service")
def set_state(state_step: Any) -> None: ...


def _read(path: Path) -> dict[str, Any] | None:
    """The configuration of a file. None, with a warning, if it is wrong."""
    try:
        given = json.loads(path.read_text())
        if not isinstance(given, dict):
            raise ValueError('it must hold a JSON object, such as {"start_step": 10}')
        known = {**_DEFAULT, "metadata": {}, "async_mode": False}
        unknown = sorted(set(given) - set(known))
        if unknown:
            raise ValueError(f"it has the unknown setting {unknown[0]!r}; known are {', '.join(known)}")
        config = {**known, **given}
        for name, default in known.items():
            if type(config[name]) is not type(default):
                raise ValueError(f"{name} must be {_KINDS[type(default)]}, but is {config[name]!r}")
        wrong = {str(name).upper() for name in config["activities"]} - {"CPU", "NPU"}
        if wrong:
            raise ValueError(f"activities are CPU and NPU, not {sorted(wrong)[0]!r}")
        for name in ("active", "warmup", "start_step"):
            least = int(name == "active")
            if config[name] < least:
                raise ValueError(f"{name} must be a whole number of at least {least}, but is {config[name]!r}")
        _experimental(config)
    except (OSError, ValueError, TypeError, RecursionError) as error:
        warnings.warn(f"dynamic_profile: {path} is not used: {error}", stacklevel=3)
        return None
    return config


_KINDS = {bool: "true or false", int: "a whole number", str: "a text", list: "a list", dict: "an object"}
_CLASSES = {"profiler_level": ProfilerLevel, "aic_metrics": AiCMetrics, "export_type": ExportType, "host_sys": HostSystem}


def _experimental(config: dict[str, Any]) -> _ExperimentalConfig:
    """In a file, a choice may have the name of its constant, such as "AiCoreNone" of AiCMetrics."""
    given = {name: value for name, value in config["experimental_config"].items() if value is not None}
    for name, names in _CLASSES.items():
        values = given.get(name)
        if isinstance(values, list):
            given[name] = [_constant(names, value) for value in values]
        elif name in given:
            given[name] = _constant(names, values)
    return _ExperimentalConfig(**given)


def _constant(names: type, value: Any) -> Any:
    return vars(names).get(value, value) if isinstance(value, str) and not value.startswith("_") else value


def _begin(config: dict[str, Any]) -> None:
    if config["is_rank"] and rank() not in config["rank_list"]:
        return
    wanted = {str(name).upper() for name in config["activities"]}
    named = {"CPU": 0, "NPU": 1}
    kinds = sorted(supported_activities(), key=lambda kind: kind.name != "CPU")
    switches: dict[str, Any] = {name: config[name] for name in _SWITCHES}
    try:
        prof = profile(
            activities=[kinds[named[name]] for name in sorted(wanted & set(named))] or None,
            schedule=Schedule(wait=0, warmup=config["warmup"], active=config["active"], repeat=1),
            on_trace_ready=tensorboard_trace_handler(config["prof_dir"], analyse_flag=config["analyse"]),
            experimental_config=_experimental(config),
            **switches,
        )
        prof.start()
        for name, value in config.get("metadata", {}).items():
            prof.add_metadata_json(name, json.dumps(value))
    except (OSError, RuntimeError) as error:
        warnings.warn(f"dynamic_profile: {getattr(error, 'strerror', None) or error}", stacklevel=3)
        return
    _state.prof, _state.left = prof, config["warmup"] + config["active"]
    atexit.register(_end)


def _end() -> None:
    """Writes what was recorded, at the end of the program too."""
    prof, _state.prof = _state.prof, None
    if prof is None:
        return
    atexit.unregister(_end)
    try:
        prof.stop()
    except OSError as error:
        warnings.warn(f"dynamic_profile: {error.strerror}", stacklevel=3)
