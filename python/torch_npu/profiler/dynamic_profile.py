"""Profiling that is started from outside of a running program: not offered yet."""

from __future__ import annotations

from typing import Any

from .._api_status import not_offered

_REASON = "use torch_npu.profiler.profile with a schedule in the program"


@not_offered(_REASON)
def init(path: str) -> None: ...


@not_offered(_REASON)
def step() -> None: ...


@not_offered(_REASON)
def start(config_path: str | None = None) -> None: ...


@not_offered(_REASON)
def set_state(state_step: Any) -> None: ...
