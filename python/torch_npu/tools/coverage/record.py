"""The operators that a program calls, with dtypes, call sites and whether they run in backward.

record = Record()
with CudaOnCpu(record.note): ...            # a program on the CPU, "cuda" included
with FakeTensorMode(), Recorder(record): ...  # fake tensors
record.calls                                 # {Key: Calls}
"""

from __future__ import annotations

import collections
import contextlib
import os
import sys
import threading
import types
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils import _pytree
from torch.utils._python_dispatch import TorchDispatchMode

# Frames of these files are no call sites.
_SKIPPED = (
    os.path.dirname(torch.__file__) + os.sep,
    os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep,
    contextlib.__file__,
    "<frozen ",
)


@dataclass(frozen=True)
class Key:
    operator: str  # aten::add.Tensor
    dtype: str  # of the first tensor; "" if there is none
    layout: str
    on_device: bool  # False: a tensor that the program keeps on the CPU


@dataclass
class Calls:
    count: int = 0
    sites: collections.Counter[str] = field(default_factory=collections.Counter)  # file:line -> calls
    backward: int = 0  # calls in backward
    nodes: set[str] = field(default_factory=set)  # nodes of autograd that called it
    shapes: str = ""  # of the first call


class Record:
    """Operators of one program. moved: whether it put a tensor on a device."""

    def __init__(self) -> None:
        self.calls: dict[Key, Calls] = collections.defaultdict(Calls)
        self.moved = False

    def note(self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any, on_device: bool) -> None:
        if not isinstance(op, torch._ops.OpOverload) or op.namespace == "prim":
            return
        tensors = [leaf for leaf in _pytree.tree_leaves((args, kwargs, result)) if isinstance(leaf, torch.Tensor)]
        first = tensors[0] if tensors else None
        dtype = str(first.dtype).removeprefix("torch.") if first is not None else ""
        self.moved |= on_device
        calls = self.calls[Key(op._name, dtype, _layout(tensors), on_device)]
        calls.count += 1
        if not calls.shapes:
            calls.shapes = ", ".join(str(tuple(each.shape)) for each in tensors[:4])
        node = torch._C._current_autograd_node()
        if node is not None:
            calls.backward += 1
            calls.nodes.add(node.name())
        calls.sites[_site()] += 1


class Recorder(TorchDispatchMode):
    """Notes operators whose tensors are not on the CPU, or all of them."""

    def __init__(self, record: Record) -> None:
        super().__init__()
        self._record = record

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        tensors = [leaf for leaf in _pytree.tree_leaves((args, kwargs, result)) if isinstance(leaf, torch.Tensor)]
        self._record.note(func, args, kwargs, result, any(each.device.type != "cpu" for each in tensors))
        return result


def _layout(tensors: list[torch.Tensor]) -> str:
    for tensor in tensors:
        if tensor.is_nested:
            return "nested"
        if tensor.is_quantized:
            return "quantized"
        if tensor.layout != torch.strided:
            return str(tensor.layout).removeprefix("torch.").removeprefix("_")
    return "strided"


def _site() -> str:
    """file:line of the innermost frame outside of torch and this package. A thread of autograd has none: the main thread waits
    for it in backward()."""
    return _outside(sys._getframe(2)) or _outside(sys._current_frames().get(threading.main_thread().ident or 0)) or "unknown"


def _outside(frame: types.FrameType | None) -> str:
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith(_SKIPPED):
            return f"{_shown(name)}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def _shown(path: str) -> str:
    """Relative to the current folder if the file is below it."""
    here = os.getcwd() + os.sep
    return path[len(here) :] if path.startswith(here) else path
