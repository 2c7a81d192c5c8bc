"""Switches of older versions of the package: graph mode, and the step from which operators are compiled for any shape. softnpu
compiles nothing and runs operators one by one, so they do nothing. The logger torch_npu says so once for each name.

torch.npu.set_start_fuzz_compile_step(3)
torch.npu.global_step_inc()
"""

from __future__ import annotations

import functools
import logging

from .._api_status import no_op

_NOT_COMPILED = "softnpu compiles no operators"
_NO_GRAPH = "operators run as they are called; torch.npu.NPUGraph records and replays them"


@no_op(_NOT_COMPILED)
def global_step_inc() -> None:
    """On hardware: counts a step for set_start_fuzz_compile_step."""
    _say("global_step_inc", _NOT_COMPILED)


@no_op(_NOT_COMPILED)
def set_start_fuzz_compile_step(step: int) -> None:
    """On hardware: from this step on, operators are compiled for any shape."""
    if not isinstance(step, int) or isinstance(step, bool):
        raise TypeError(f"set_start_fuzz_compile_step takes the number of a step, not {step!r}")
    _say("set_start_fuzz_compile_step", _NOT_COMPILED)


@no_op(_NO_GRAPH)
def enable_graph_mode(verbose: bool = False) -> None:
    """On hardware: the operators that follow are collected until launch_graph."""
    _say("enable_graph_mode", _NO_GRAPH)


@no_op(_NO_GRAPH)
def disable_graph_mode() -> None:
    """On hardware: ends enable_graph_mode."""
    _say("disable_graph_mode", _NO_GRAPH)


@no_op(_NO_GRAPH)
def launch_graph() -> None:
    """On hardware: runs the operators that were collected."""
    _say("launch_graph", _NO_GRAPH)


@no_op(_NO_GRAPH)
def is_graph_mode() -> bool:
    """False."""
    return False


@functools.cache
def _say(name: str, reason: str) -> None:
    logging.getLogger("torch_npu").warning("torch.npu.%s does nothing: %s", name, reason)
