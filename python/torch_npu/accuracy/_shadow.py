"""Shadows: repeat calls of operators on the CPU in float64, and compare the results of npu with them.

An error exceeds its bound if it is larger than the precision of the type allows (tools/accuracy/verdict.py) and also more than
four times the error of the CPU in the same type. Integers and bools must equal the CPU's results in the same type."""

from __future__ import annotations

import collections
import sys
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ..npu import _compare, _equivalents
from ..npu._describe import arguments, caller
from ._places import Places

_WIDE = {torch.complex32: torch.complex128, torch.complex64: torch.complex128}
_LENIENCY = 4


def widened(item: Any) -> Any:
    """Floating tensors and dtypes as float64; others unchanged. Tensors are copies, because an operator may write them."""
    if isinstance(item, torch.Tensor):
        return item.to(widened(item.dtype), copy=True)
    if isinstance(item, torch.dtype):
        return torch.float64 if item.is_floating_point else _WIDE.get(item, item)
    return item


def beyond_bound(actual: Any, same: Any, wide: Any) -> str:
    """The reason why the results of npu are wrong, or "". `same` are results of the CPU in the same types. `wide` are results of
    the CPU in float64, or None if the operator has no float64."""
    from ..tools.accuracy.verdict import judge

    mine, cpu = _tensors(actual), _tensors(same)
    golden = _tensors(wide) if wide is not None else cpu
    if len(mine) != len(cpu):
        return f"npu gives {len(mine)} tensors and the CPU {len(cpu)}"
    if len(golden) != len(cpu):
        golden = cpu
    for place, (left, native, right) in enumerate(zip(mine, cpu, golden, strict=True)):
        if left.shape != native.shape or left.dtype != native.dtype:
            told = f"npu gives {left.dtype} {list(left.shape)} and the CPU {native.dtype} {list(native.shape)}"
            return f"result {place}: {told}"
        floating = left.is_floating_point() or left.is_complex()
        right = right if floating and right.shape == left.shape and right.dtype == widened(left.dtype) else native
        kind = str(left.dtype).removeprefix("torch.")
        found = judge(_array(left), _array(right), kind, kind)
        if found.agrees or (found.state == "warning" and not found.units):
            continue
        allowed = judge(_array(native), _array(right), kind, kind).units
        if found.units > _LENIENCY * allowed:
            return f"result {place}: {found.reason}; the CPU has an error of {allowed:.3g} units in the same type"
    return ""


def _tensors(values: Any) -> list[torch.Tensor]:
    return [each for each in pytree.tree_leaves(values) if isinstance(each, torch.Tensor)]


def _array(tensor: torch.Tensor) -> Any:
    tensor = tensor.detach().cpu().resolve_conj().resolve_neg()
    if tensor.is_complex():
        return tensor.to(torch.complex128).numpy()
    return tensor.double().numpy() if tensor.is_floating_point() else tensor.numpy()


class Finding:
    def __init__(self, operator: str, module: str, line: str, given: str, reason: str) -> None:
        self.operator, self.module, self.line, self.given, self.reason = operator, module, line, given, reason
        self.program = ""
        self.calls = 1

    def text(self) -> str:
        place = f" in module {self.module}" if self.module else ""
        told = [f"{self.operator}{place}: {self.reason}", f"  called from {self.line}", f"  with {self.given}"]
        return "\n".join([*told, f"  to repeat it: python {self.program}"] if self.program else told)


class Shadows:
    """An observer (npu/_watch.py). It compares the first `first` calls of each operator, and then every `every`-th call."""

    def __init__(self, folder: Path, places: Places, first: int = 3, every: int = 100) -> None:
        self._folder, self._places, self._first, self._every = folder, places, first, every
        self.seen: collections.Counter[str] = collections.Counter()
        self.compared: collections.Counter[str] = collections.Counter()
        self.skipped: dict[str, str] = {}
        self.findings: dict[str, Finding] = {}  # the first finding of each operator, in the order of the run

    def __call__(self, op: Any, args: Any, kwargs: Any) -> Any:
        name = op._name
        if reason := _compare.why_not(op) or _compare.why_not_now(op, args, kwargs):
            self.skipped.setdefault(name, reason)
            return None
        self.seen[name] += 1
        if self.seen[name] > self._first and (self.seen[name] - self._first) % self._every:
            return None
        call = _compare._Call(op, args, kwargs)
        wide = pytree.tree_map(widened, (call.args, call.kwargs)) if not _compare._is_view(op) else None
        return lambda result: self._judge(call, wide, result, arguments(op, args, kwargs))

    def _judge(self, call: Any, wide: Any, result: Any, described: str) -> None:
        name = call.op._name
        try:
            same = call.expected()
        except (RuntimeError, TypeError, ValueError, IndexError) as error:
            self.skipped.setdefault(name, f"the CPU refuses it: {error}".splitlines()[0][:200])
            return
        golden = None
        if wide is not None:
            try:
                golden = _equivalents.repeat(call.op, *wide[0], **wide[1]), call.written(*wide)
            except (RuntimeError, TypeError, ValueError, IndexError):
                golden = None  # the operator has no float64
        self.compared[name] += 1
        reason = beyond_bound(call.actual(result), same, golden)
        if not reason:
            return
        if name in self.findings:
            self.findings[name].calls += 1
            return
        module, line = self._places.now()
        found = self.findings[name] = Finding(name, module, line or caller(), described, reason)
        path = (self._folder / f"{name.replace('::', '.')}.py").absolute()
        lines = [f"{name} on npu is beyond its bound", f"module {module or '(none)'}, called from {found.line}", reason]
        problem = _compare.save_program(call, path, call.script(lines, {}, _PROGRAM))
        if problem:
            print(f"torch_npu: {problem}", file=sys.stderr, flush=True)
        else:
            found.program = str(path)


_PROGRAM = '''\
"""{head}

{details}
Runs the operator once more. The exit status is 1 if its error still exceeds the bound, and 0 if not.
"""

import sys
from pathlib import Path

import torch
{imports}
from torch.utils import _pytree as pytree
from torch_npu.accuracy import beyond_bound
from torch_npu.accuracy._shadow import widened


def run(device, wide=False):
    file = Path(__file__).with_suffix(".pt")
    host, given = (torch.load(file, map_location=place, weights_only=True) for place in ("cpu", device))
    if wide:
        host, given = pytree.tree_map(widened, (host, given))
    result = {call}
    return result, [{written}]


try:
    golden = run("cpu", wide=True)
except (RuntimeError, TypeError, ValueError, IndexError):
    golden = None  # the operator has no float64
reason = beyond_bound(run("npu"), run("cpu"), golden)
if reason:
    sys.exit(reason)
print("npu is within the bound")
'''
