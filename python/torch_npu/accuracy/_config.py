"""The config.json of PrecisionDebugger, with the keys of msprobe."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TASKS = ("statistics", "tensor", "overflow_check")
LEVELS = ("L0", "L1", "mix")
_MODES = ("all", "forward", "backward", "input", "output")
_SUMMARIES = ("statistics", "md5")
# Keys of msprobe that have no effect here. Any other unknown key is an error, so that a misspelt key is noticed.
_IGNORED = {"async_dump", "extra_info", "seed", "is_deterministic", "enable_dataloader", "precision", "file_format", "check_mode"}
_KNOWN = {"task", "dump_path", "rank", "step", "level"}
_OF_TASK = {"scope", "list", "tensor_list", "data_mode", "summary_mode", "overflow_nums"}


@dataclass
class Config:
    task: str = "statistics"
    dump_path: Path = Path(".")
    rank: list[int] = field(default_factory=list)  # empty: all
    step: list[int] = field(default_factory=list)  # empty: all
    level: str = "L1"
    scope: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)  # the key "list": parts of names of calls; empty: all
    tensor_list: list[str] = field(default_factory=list)  # the task statistics: calls that also get .pt files, by parts of names
    data_mode: list[str] = field(default_factory=lambda: ["all"])
    summary_mode: str = "statistics"
    overflow_nums: int = 1  # -1: no limit

    @property
    def writes_tensors(self) -> bool:
        return self.task != "statistics" or bool(self.tensor_list)

    def writes_tensors_of(self, name: str) -> bool:
        return self.task != "statistics" or any(each in name for each in self.tensor_list)

    def wants(self, mode: str) -> bool:
        return "all" in self.data_mode or mode in self.data_mode or not ({mode, _other(mode)} & set(self.data_mode))


def _other(mode: str) -> str:
    return {"forward": "backward", "backward": "forward", "input": "output", "output": "input"}[mode]


def read(path: str | os.PathLike[str] | None, given: dict[str, Any]) -> Config:
    """The configuration from a file and from `given`, the arguments of PrecisionDebugger, which take precedence. ValueError names
    the key, OSError names the file."""
    content: dict[str, Any] = {}
    where = "PrecisionDebugger"
    if path is not None:
        where = str(path)
        try:
            content = json.loads(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise OSError(error.errno, f"the configuration {path} cannot be read: {error.strerror}") from None
        except ValueError as error:
            raise ValueError(f"{path} is not a JSON file: {error}") from None
        if not isinstance(content, dict):
            raise ValueError(f"{path} must hold a JSON object with task and dump_path, but holds {type(content).__name__}")
    values = {key: content[key] for key in _KNOWN if content.get(key) is not None}
    values.update({key: value for key, value in given.items() if value is not None})
    task = values.get("task", "statistics")
    if task not in TASKS:
        raise ValueError(f"{where}: the task is {task!r}; allowed are {', '.join(TASKS)}")
    of_task = content.get(task, {})
    if not isinstance(of_task, dict):
        raise ValueError(f"{where}: the key {task!r} must be an object, but is {of_task!r}")
    unknown = {key for key in content if key not in _KNOWN | _IGNORED and not isinstance(content[key], dict)}
    unknown |= set(of_task) - _OF_TASK - _IGNORED
    if unknown:
        raise ValueError(f"{where}: unknown keys {', '.join(sorted(unknown))}")
    values.update({key: value for key, value in of_task.items() if key in _OF_TASK})
    return _checked(where, values)


def _checked(where: str, values: dict[str, Any]) -> Config:
    for key in ("rank", "step"):
        values[key] = _numbers(where, key, values.get(key, []))
    for key in ("scope", "list", "tensor_list", "data_mode"):
        item = values.get(key, [])
        if not isinstance(item, list) or not all(isinstance(each, str) for each in item):
            raise ValueError(f"{where}: {key} must be a list of names, but is {item!r}")
    values["names"] = values.pop("list", [])
    values["data_mode"] = values.get("data_mode") or ["all"]
    if bad := set(values["data_mode"]) - set(_MODES):
        raise ValueError(f"{where}: data_mode has {', '.join(sorted(bad))}; allowed are {', '.join(_MODES)}")
    if len(values.get("scope", [])) not in (0, 2):
        raise ValueError(f"{where}: scope must be the names of the first and the last call, but is {values['scope']!r}")
    if values.get("level", "L1") not in LEVELS:
        raise ValueError(f"{where}: the level is {values['level']!r}; allowed are {', '.join(LEVELS)}")
    if values.get("summary_mode", "statistics") not in _SUMMARIES:
        raise ValueError(f"{where}: summary_mode is {values['summary_mode']!r}; allowed are {', '.join(_SUMMARIES)}")
    if not isinstance(values.get("overflow_nums", 1), int):
        raise ValueError(f"{where}: overflow_nums must be a number, but is {values['overflow_nums']!r}")
    values["dump_path"] = Path(values.get("dump_path") or ".")
    return Config(**values)


def _numbers(where: str, key: str, given: Any) -> list[int]:
    """Reads a list of numbers and ranges, such as [0, 3, "5-7"]."""
    found: list[int] = []
    for item in given if isinstance(given, list) else [given]:
        if isinstance(item, int) and not isinstance(item, bool) and item >= 0:
            found.append(item)
            continue
        first, dash, last = str(item).partition("-")
        if not (first.isdigit() and (last.isdigit() if dash else not last)) or int(last or first) < int(first):
            raise ValueError(f"{where}: {key} must have numbers or ranges such as '2-5', but has {item!r}")
        found.extend(range(int(first), int(last or first) + 1))
    return found
