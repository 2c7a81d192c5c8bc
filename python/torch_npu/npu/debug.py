"""torch.npu.debug: operators chosen by a regular expression are run on the CPU, compared with it, or printed.

    with torch.npu.debug.compare(".*softmax|native_layer_norm", raises=True):
        step()
    everything = torch.npu.debug.print_ops(".*")  # until everything.close()

docs/debugging.md says which names an expression matches. A switch is for the whole process, and is not to be made or closed while
another thread runs operators. The environment may set one of each kind from the start: TORCH_NPU_FORCE_FALLBACK,
TORCH_NPU_COMPARE and TORCH_NPU_PRINT_OPS.
"""

import functools
import re
import sys
import warnings

from .. import _C
from . import _compare, _describe, _watch

__all__ = ["Switch", "compare", "force_fallback", "print_ops"]


class Switch:
    """Operators that are treated specially until close(), or the end of a `with` block. `operators` has their names."""

    def __init__(self, operators, start, stop, pattern, stacklevel=3):
        self.operators = operators
        self._stop = stop
        if not operators:
            warnings.warn(f"the expression {pattern!r} matches no operator that reaches npu", stacklevel=stacklevel)
        start(operators)

    def close(self):
        stop, self._stop = self._stop, None
        if stop is not None:
            stop(self.operators)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def force_fallback(pattern):
    """Matching operators run on the CPU, counted by fallback_stats(), in strict mode too. Not views, nor what makes and copies
    tensors."""
    names = list(filter(_watch.can_fall_back, _watch.matching(pattern)))
    return Switch(names, lambda ops: _watch.force_fallback(ops, True), lambda ops: _watch.force_fallback(ops, False), pattern)


def compare(pattern, *, raises=False, folder="npu_differences", rtol=None, atol=None):
    """Results of matching operators are compared with those of the CPU for the same inputs. The first difference of each operator
    is reported on stderr, or with `raises` the first of all is a RuntimeError; a script in `folder` repeats it. Tolerances are
    those of torch.testing.assert_close. The switch counts calls by operator in `.compared` and `.differences`; `.skipped` has the
    operators that could not be compared, with reasons."""
    observer = _compare.Comparison(raises, folder, rtol, atol)
    switch = _observe(pattern, observer)
    switch.compared, switch.differences, switch.skipped = observer.compared, observer.differences, observer.skipped
    return switch


def print_ops(pattern, *, file=None):
    """Calls of matching operators are printed to `file`, else stderr, a line for each: arguments, results, the Python line."""

    def observe(op, args, kwargs):
        before = f"{op._name}({_describe.arguments(op, args, kwargs)})"
        return lambda result: print(f"{before} -> {_describe.results(result)}  # {_describe.caller()}", file=file or sys.stderr)

    return _observe(pattern, observe)


def _observe(pattern, observer):
    names = _watch.matching(pattern)
    start, stop = (lambda ops: _watch.watch(ops, observer)), (lambda ops: _watch.unwatch(ops, observer))
    return Switch(names, start, stop, pattern, stacklevel=4)


_VARIABLES = {
    "TORCH_NPU_FORCE_FALLBACK": "force_fallback",
    "TORCH_NPU_COMPARE": "compare",
    "TORCH_NPU_PRINT_OPS": "print_ops",
}


def _check_environment():
    given = _C._debug_options()
    for variable, option in _VARIABLES.items():
        try:
            re.compile(given[option])
        except re.error as error:
            is_none = "which is no regular expression"
            raise ValueError(f"the environment variable {variable} is {given[option]!r}, {is_none}: {error}") from None


def _from_environment():
    given = _C._debug_options()
    compare_as_told = functools.partial(compare, raises=given["compare_raise"], folder=given["compare_dir"])
    switches = {"force_fallback": force_fallback, "compare": compare_as_told, "print_ops": print_ops}
    return [switch(given[option]) for option, switch in switches.items() if given[option]]
