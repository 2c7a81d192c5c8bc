"""Profiles a running program when the file profiler_config.json changes.

    dynamic_profile.init("folder")      # writes folder/profiler_config.json if it is missing
    for batch in loader:
        train(batch)
        dynamic_profile.step()          # checks the file every 2 seconds

After the file has changed, `warmup` steps are skipped and `active` steps are recorded to prof_dir. start(path) reads a file at
once. A wrong file, or a folder that cannot be written, gives a warning instead of an error, so that a training continues.

    PROF_CONFIG_PATH=folder python train.py      # profiles a program without these calls

Then each step() of the first optimizer of the program ends a step.
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
        self.optimizer: weakref.ref[Optimizer] | None = None  # with PROF_CONFIG_PATH: the optimizer whose step() ends a step


_state = _State()


def init(path: str) -> None:
    """Sets the folder of profiler_config.json. A missing file is written with defaults."""
    folder = Path(path).absolute()  # the program may change its working directory
    file = folder / _NAME
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not file.exists():
            # Each rank calls init(). If two ranks wrote the file, the first rank would see the second write as a change.
            with suppress(FileExistsError), file.open("x") as new:
                new.write(json.dumps(_DEFAULT, indent=1) + "\n")
        _state.changed = file.stat().st_mtime_ns
    except OSError as error:
        raise OSError(error.errno, f"dynamic_profile.init: {file} cannot be written: {error.strerror}") from None
    _state.path, _state.steps, _state.looked = file, 0, time.monotonic()


def from_environment() -> None:
    """Starts dynamic profiling if PROF_CONFIG_PATH is set. A folder that cannot be written gives a warning."""
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
    """Records the next steps with the settings of a file, or with the defaults."""
    config = dict(_DEFAULT) if config_path is None else _read(Path(config_path))
    if config is not None:
        _state.waiting = config


def step() -> None:
    """Ends a step. Call it after each step."""
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


@no_op("it reports the state of a training to the vendor's service")
def set_state(state_step: Any) -> None: ...


def _read(path: Path) -> dict[str, Any] | None:
    """Reads a configuration file. Returns None and warns if the file is wrong."""
    try:
        given = json.loads(path.read_text())
        if not isinstance(given, dict):
            raise ValueError('it must contain a JSON object, such as {"start_step": 10}')
        known = {**_DEFAULT, "metadata": {}, "async_mode": False}
        unknown = sorted(set(given) - set(known))
        if unknown:
            raise ValueError(f"it has the unknown setting {unknown[0]!r}; the settings are {', '.join(known)}")
        config = {**known, **given}
        for name, default in known.items():
            if type(config[name]) is not type(default):
                raise ValueError(f"{name} must be {_KINDS[type(default)]}, but is {config[name]!r}")
        wrong = {str(name).upper() for name in config["activities"]} - {"CPU", "NPU"}
        if wrong:
            raise ValueError(f"activities may be CPU and NPU, not {sorted(wrong)[0]!r}")
        for name in ("active", "warmup", "start_step"):
            least = int(name == "active")
            if config[name] < least:
                raise ValueError(f"{name} must be a whole number of at least {least}, but is {config[name]!r}")
        for number in config["rank_list"]:
            if type(number) is not int:
                raise ValueError(f"rank_list must hold whole numbers, but has {number!r}")
        _experimental(config)
    except (OSError, ValueError, TypeError, RecursionError) as error:
        warnings.warn(f"dynamic_profile: {path} is not used: {error}", stacklevel=3)
        return None
    return config


_KINDS = {bool: "true or false", int: "a whole number", str: "a text", list: "a list", dict: "an object"}
_CLASSES = {"profiler_level": ProfilerLevel, "aic_metrics": AiCMetrics, "export_type": ExportType, "host_sys": HostSystem}


def _experimental(config: dict[str, Any]) -> _ExperimentalConfig:
    """The settings of the key experimental_config. A file may name a constant, such as "AiCoreNone" of AiCMetrics."""
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
    except (OSError, RuntimeError, ValueError) as error:
        warnings.warn(f"dynamic_profile: {getattr(error, 'strerror', None) or error}", stacklevel=3)
        return
    _state.prof, _state.left = prof, config["warmup"] + config["active"]
    atexit.register(_end)


def _end() -> None:
    """Ends the recording and writes its result. Also called at the end of the program."""
    prof, _state.prof = _state.prof, None
    if prof is None:
        return
    atexit.unregister(_end)
    try:
        prof.stop()
    except OSError as error:
        warnings.warn(f"dynamic_profile: {error.strerror}", stacklevel=3)
