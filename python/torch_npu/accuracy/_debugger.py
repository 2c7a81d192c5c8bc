"""PrecisionDebugger: the interface and the files of msprobe.

    debugger = PrecisionDebugger(config_path="config.json")      # or task=, dump_path=, level=, step=
    for batch in data:
        debugger.start(model)
        train(batch)
        debugger.stop()
        debugger.step()

Level L1 records calls of torch functions, L0 records calls of modules, and mix records both. The files are in
<dump_path>/step<n>/rank<n>.
"""

from __future__ import annotations

import atexit
import collections
import functools
import inspect
import os
import random
import sys
import traceback
import warnings
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from ..npu._sigterm import Sigterm
from . import _config
from ._gradients import Edges, edges_of, watch_gradients
from ._modules import Modules
from ._names import name_of
from ._output import Output, has_overflowed


def seed_all(seed: int = 1234, mode: bool = False) -> None:
    """Seeds Python, numpy and torch on all devices. `mode` also asks for deterministic algorithms."""
    random.seed(seed)
    os.environ["PYTHONHASHSEED"] = str(seed)
    torch.manual_seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed % 2**32)
    torch.use_deterministic_algorithms(mode)


class PrecisionDebugger:
    """A process has one PrecisionDebugger: a new object replaces the older one. start(), stop() and step() may also be called on
    the class."""

    _instance: PrecisionDebugger | None = None

    def __init__(
        self,
        config_path: str | os.PathLike[str] | None = None,
        task: str | None = None,
        dump_path: str | os.PathLike[str] | None = None,
        level: str | None = None,
        step: list[int] | None = None,
    ) -> None:
        given = {"task": task, "dump_path": dump_path, "level": level, "step": step}
        self._config = _config.read(config_path, given)
        self._step = 0
        self._recorder: _Recorder | None = None
        self._ending = Sigterm(PrecisionDebugger.stop)
        if PrecisionDebugger._instance is not None:
            PrecisionDebugger.stop()
        else:
            atexit.register(_stop_at_exit, os.getpid())
        PrecisionDebugger._instance = self

    @classmethod
    def _made(cls) -> PrecisionDebugger:
        if PrecisionDebugger._instance is None:
            raise RuntimeError("this process has no PrecisionDebugger; make one before you call start(), stop() or step()")
        return PrecisionDebugger._instance

    @classmethod
    def start(cls, model: torch.nn.Module | None = None, token_range: Any = None, rank_id: int | None = None) -> None:
        """Records until stop(). A second start() in the same step adds to the files of the step."""
        self = cls._made()
        rank = _rank() if rank_id is None else rank_id
        if (self._config.step and self._step not in self._config.step) or (self._config.rank and rank not in self._config.rank):
            return
        if self._recorder is None:
            folder = self._config.dump_path / f"step{self._step}" / f"rank{rank}"
            try:
                output = Output(folder, self._config)
            except OSError as error:
                told = f"the folder {folder} cannot be made: {error.strerror}; nothing is recorded, and the program goes on"
                print(f"torch_npu: PrecisionDebugger: {told}", file=sys.stderr, flush=True)
                return
            self._recorder = _Recorder(self._config, output, model)
        self._recorder.open()
        self._ending.catch()

    @classmethod
    def stop(cls) -> None:
        """Writes the files. The functions of the backward pass must have run."""
        self = cls._made()
        if self._recorder is not None:
            self._recorder.close()
        self._ending.restore()

    @classmethod
    def step(cls) -> None:
        """Ends a step. The next start() writes to the folder of the next step."""
        self = cls._made()
        cls.stop()
        self._recorder = None
        self._step += 1


def _stop_at_exit(process: int) -> None:
    """Writes the files if the program exits between start() and stop(). Does nothing in the child of a fork."""
    if os.getpid() == process:
        PrecisionDebugger.stop()


def _rank() -> int:
    ready = torch.distributed.is_available() and torch.distributed.is_initialized()
    return torch.distributed.get_rank() if ready else int(os.environ.get("RANK", "0") or 0)


class _Functions(TorchFunctionMode):
    """Sees the calls of the program only. While a called function runs, torch switches the mode off."""

    def __init__(self, recorder: _Recorder) -> None:
        super().__init__()
        self._recorder = recorder

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if torch.compiler.is_compiling():
            return function(*args, **kwargs)
        name = name_of(function) if self._recorder.active else None
        return function(*args, **kwargs) if name is None else self._recorder.function(name, function, args, kwargs)


class _Recorder:
    """The calls of one step."""

    def __init__(self, config: _config.Config, output: Output, model: torch.nn.Module | None) -> None:
        self._config, self._output = config, output
        self._modules = Modules(model)
        self._modules.entered, self._modules.left = self._entered, self._left
        self._mode = _Functions(self)
        self._counts: collections.Counter[str] = collections.Counter()
        self._module_inputs: dict[str, Any] = {}
        self._in_scope = not config.scope
        self._overflows = 0
        self._installed = False
        self._skipped = 0  # calls inside a graph capture
        self.active = False

    def open(self) -> None:
        if self.active:
            return
        self.active = True
        self._modules.open()
        if not self._installed:
            self._mode.__enter__()
            self._installed = True

    def close(self) -> None:
        if not self.active:
            return
        self.active = False
        self._modules.close()
        # If the program has entered another mode since, ours stays below it and does nothing.
        if torch.overrides._get_current_function_mode() is self._mode:
            self._mode.__exit__(None, None, None)
            self._installed = False
        if self._skipped:
            warnings.warn(f"{self._skipped} calls inside a graph capture were not recorded", stacklevel=3)
            self._skipped = 0
        self._output.write()

    def function(self, base: str, function: Any, args: Any, kwargs: Any) -> Any:
        if self._config.level == "L0" or self._is_in_graph():
            return function(*args, **kwargs)
        before = self._output.snapshot((args, kwargs)) if _writes(base, function, args, kwargs) else None
        edges = self._edges((args, kwargs))
        result = function(*args, **kwargs)
        if not any(isinstance(each, torch.Tensor) for each in pytree.tree_leaves(result)):
            return result
        name = f"{base}.{self._counts[base]}"
        self._counts[base] += 1
        self._record(f"{name}.forward", f"{name}.backward", before or (args, kwargs), edges, result, self._modules.call)
        return result

    def _entered(self, module: torch.nn.Module, name: str, inputs: Any) -> None:
        if self._config.level != "L1" and not self._is_in_graph():
            self._module_inputs[name] = self._output.snapshot(inputs), self._edges(inputs), self._modules.call

    def _is_in_graph(self) -> bool:
        """Whether the current stream is captured. Captured work does not run now, so its tensors have no values to read."""
        captured = torch.npu.is_current_stream_capturing()
        self._skipped += captured
        return captured

    def _left(self, module: torch.nn.Module, name: str, inputs: Any, outputs: Any) -> None:
        if name in self._module_inputs and self.active:
            given, edges, parent = self._module_inputs.pop(name)
            self._record(name, name.replace(".forward.", ".backward."), (given, {}), edges, outputs, parent)

    def _edges(self, given: Any) -> Edges:
        if not (self._config.wants("backward") and torch.is_grad_enabled()):
            return {}
        with torch._C.DisableTorchFunction():
            return edges_of([each for each in pytree.tree_leaves(given) if isinstance(each, torch.Tensor)])

    def _record(self, name: str, backward: str, shown: Any, edges: Edges, result: Any, parent: str | None) -> None:
        with torch._C.DisableTorchFunction():  # hooks of modules run with the mode on
            self._record_call(name, backward, shown, edges, result, parent)

    def _record_call(self, name: str, backward: str, shown: Any, edges: Edges, result: Any, parent: str | None) -> None:
        config = self._config
        if not self._chosen(name):
            return
        line = "" if parent is None else f" in {parent}"
        if config.wants("forward") and self._keeps(name, shown, result, line):
            self._output.forward(name, shown[0], shown[1], result, _stack(), parent)
        if not config.wants("backward"):
            return
        stack = _stack()
        outputs = [each for each in pytree.tree_leaves(result) if isinstance(each, torch.Tensor)]
        parent_call = parent.replace(".forward.", ".backward.") if parent else None
        seen: dict[str, dict[int, torch.Tensor]] = {"input": {}, "output": {}}

        def note(side: str, place: int, gradient: torch.Tensor) -> None:
            if not self.active or self._is_in_graph():
                return
            seen[side][place] = gradient
            with torch._C.DisableTorchFunction():
                if config.task != "overflow_check" or self._keeps(backward, list(seen["input"].values()), gradient, line):
                    self._output.gradient(backward, side, place, gradient, stack, parent_call)

        watch_gradients(edges, outputs, note)

    def _chosen(self, name: str) -> bool:
        scope = self._config.scope
        if scope and not self._in_scope and name == scope[0]:
            self._in_scope = True
        chosen = self._in_scope and (not self._config.names or any(each in name for each in self._config.names))
        if scope and name == scope[1]:
            self._in_scope = False
        return chosen

    def _keeps(self, name: str, inputs: Any, outputs: Any, line: str) -> bool:
        if self._config.task != "overflow_check":
            return True
        if 0 <= self._config.overflow_nums <= self._overflows or not has_overflowed(inputs, outputs):
            return False
        self._overflows += 1
        print(f"torch_npu: {name}{line} overflowed: its inputs are finite and its outputs are not", file=sys.stderr, flush=True)
        return True


# Functions that write an argument: running statistics, embeddings that are too long, or noise.
_WRITERS = {"__setitem__", "batch_norm", "embedding", "embedding_bag", "instance_norm", "rrelu_with_noise"}


def _writes(base: str, function: Any, args: Any, kwargs: dict[str, Any]) -> bool:
    """Whether the call may change an argument."""
    word = base.rpartition(".")[2]
    if (word.endswith("_") and not word.endswith("__")) or word.startswith("__i") or word in _WRITERS:
        return True
    if kwargs.get("inplace") or kwargs.get("out") is not None:
        return True
    place = _place_of_inplace(function)
    return place is not None and len(args) > place and bool(args[place])


@functools.cache
def _place_of_inplace(function: Any) -> int | None:
    """The position of the parameter `inplace`. Modules pass it as a positional argument."""
    try:
        names = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return None  # a builtin of torch; its name or `out` shows whether it writes
    return names.index("inplace") if "inplace" in names else None


def _stack() -> list[str]:
    """The stack of the program, innermost line first, without lines of torch and torch_npu."""
    tools = (os.path.dirname(torch.__file__), os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    frames = traceback.extract_stack(limit=40)
    kept = [frame for frame in reversed(frames) if not frame.filename.startswith((*tools, "<frozen"))]
    return [f"File {frame.filename}, line {frame.lineno}, in {frame.name}, \n {frame.line}" for frame in kept]
