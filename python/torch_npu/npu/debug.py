"""torch.npu.debug: runs operators on the CPU, compares them with the CPU, or prints them. A regular expression selects them.

    with torch.npu.debug.compare(".*softmax|native_layer_norm", raises=True):
        step()
    everything = torch.npu.debug.print_ops(".*")  # until everything.close()

docs/debugging.md describes the expressions. A switch applies to the whole process. Do not make or close one while another thread
runs operators. The environment variables TORCH_NPU_FORCE_FALLBACK, TORCH_NPU_COMPARE and TORCH_NPU_PRINT_OPS set a switch from
the start.
"""

from __future__ import annotations

import collections
import functools
import os
import re
import sys
import warnings
from collections.abc import Callable
from typing import Any, TextIO

from .. import _C
from . import _compare, _describe, _watch

__all__ = ["Switch", "compare", "force_fallback", "print_ops"]


class Switch:
    """Active until close() or the end of a `with` block. `operators` has the names of the selected operators."""

    compared: collections.Counter[str]  # these three are set by compare() only
    differences: collections.Counter[str]
    skipped: dict[str, str]

    def __init__(
        self,
        operators: list[str],
        start: Callable[[list[str]], None],
        stop: Callable[[list[str]], None],
        pattern: str,
        stacklevel: int = 3,
    ) -> None:
        self.operators = operators
        self._stop: Callable[[list[str]], None] | None = stop
        if not operators:
            warnings.warn(f"the expression {pattern!r} matches no operator that reaches npu", stacklevel=stacklevel)
        start(operators)

    def close(self) -> None:
        stop, self._stop = self._stop, None
        if stop is not None:
            stop(self.operators)

    def __enter__(self) -> Switch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def force_fallback(pattern: str) -> Switch:
    """Runs matching operators on the CPU, also in strict mode; fallback_stats() counts them. Views and operators that make or
    copy tensors are excluded."""
    names = list(filter(_watch.can_fall_back, _watch.matching(pattern)))
    return Switch(names, lambda ops: _watch.force_fallback(ops, True), lambda ops: _watch.force_fallback(ops, False), pattern)


def compare(
    pattern: str,
    *,
    raises: bool = False,
    folder: str | os.PathLike[str] = "npu_differences",
    rtol: float | None = None,
    atol: float | None = None,
) -> Switch:
    """Compares results of matching operators with those of the CPU for the same inputs.

    The first difference of each operator is printed to stderr; with `raises`, the first of all is a RuntimeError. A script in
    `folder` repeats it. The tolerances are those of torch.testing.assert_close. The switch counts calls by operator in
    `.compared` and `.differences`. `.skipped` has the operators that cannot be compared, with reasons."""
    observer = _compare.Comparison(raises, folder, rtol, atol)
    switch = _observe(pattern, observer)
    switch.compared, switch.differences, switch.skipped = observer.compared, observer.differences, observer.skipped
    return switch


def print_ops(pattern: str, *, file: TextIO | None = None) -> Switch:
    """Prints a line per call of a matching operator to `file`, or stderr: arguments, results, the Python line."""

    def observe(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[[Any], None]:
        before = f"{op._name}({_describe.arguments(op, args, kwargs)})"
        return lambda result: print(f"{before} -> {_describe.results(result)}  # {_describe.caller()}", file=file or sys.stderr)

    return _observe(pattern, observe)


def _observe(pattern: str, observer: Callable[..., Any]) -> Switch:
    names = _watch.matching(pattern)
    start, stop = (lambda ops: _watch.watch(ops, observer)), (lambda ops: _watch.unwatch(ops, observer))
    return Switch(names, start, stop, pattern, stacklevel=4)


_VARIABLES = {
    "TORCH_NPU_FORCE_FALLBACK": "force_fallback",
    "TORCH_NPU_COMPARE": "compare",
    "TORCH_NPU_PRINT_OPS": "print_ops",
}


def _check_environment() -> None:
    given = _C._debug_options()
    for variable, option in _VARIABLES.items():
        try:
            re.compile(given[option])
        except re.error as error:
            is_none = "which is no regular expression"
            raise ValueError(f"the environment variable {variable} is {given[option]!r}, {is_none}: {error}") from None


def _from_environment() -> list[Switch]:
    given = _C._debug_options()
    compare_as_told = functools.partial(compare, raises=given["compare_raise"], folder=given["compare_dir"])
    switches: dict[str, Callable[[str], Switch]] = {
        "force_fallback": force_fallback,
        "compare": compare_as_told,
        "print_ops": print_ops,
    }
    return [switch(given[option]) for option, switch in switches.items() if given[option]]
