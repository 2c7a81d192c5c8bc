"""Profiling that is switched on from outside of a running program: not offered yet."""

from .._offer import not_offered

_REASON = "use torch_npu.profiler.profile with a schedule in the program"


@not_offered(_REASON)
def init(path): ...


@not_offered(_REASON)
def step(): ...


@not_offered(_REASON)
def start(config_path=None): ...


@not_offered(_REASON)
def set_state(state_step): ...
