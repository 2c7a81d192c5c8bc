"""Capture: connects the engine (csrc/aten/capture) with a writer."""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import sys
import threading
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import torch

from .. import _C
from ..npu._sigterm import Sigterm
from ._acl import AclWriter
from ._hdf5 import Hdf5Writer
from ._record import Record

_MODES = ("tensor", "statistics", "both")


class Capture:
    """Captures calls between start() and stop(), or in a `with` block. Use an object once. A process has one active capture.

    `mode` is "tensor", "statistics" or "both". JsonWriter adds statistics to tensors, so "both" has the effect of "tensor".
    `operators` is a regular expression for whole names. `modules` are regular expressions for names of modules of `model`, or for
    class names if there is no `model`. `step` is the number of this step. If `ranks` or `steps` are given and do not contain this
    rank or step, nothing is captured. `overflow` keeps only calls whose results are not finite although their inputs are.
    `before` and `after` are for replays, see dumper.py. A failure of the writer is printed, and the program goes on."""

    _active: Capture | None = None

    def __init__(
        self,
        writer: Any,
        *,
        mode: str = "tensor",
        operators: str = "",
        model: torch.nn.Module | None = None,
        modules: Iterable[str] = (),
        ranks: Iterable[int] | None = None,
        steps: Iterable[int] | None = None,
        step: int = 0,
        forward: bool = True,
        backward: bool = True,
        inputs: bool = True,
        outputs: bool = True,
        overflow: bool = False,
        first_sequence: int = 1,
        before: Callable[[str, bool, dict[str, Any]], int] | None = None,
        after: Callable[[], None] | None = None,
    ) -> None:
        if mode not in _MODES:
            raise ValueError(f"the mode of a capture is {mode!r}; it must be one of {', '.join(_MODES)}")
        if mode == "statistics" and isinstance(writer, Hdf5Writer | AclWriter):
            advice = "use JsonWriter(folder, tensors=False) or the mode 'tensor'"
            raise ValueError(f"the files of {type(writer).__name__} hold no statistics: {advice}")
        patterns = [modules] if isinstance(modules, str) else list(modules)
        for pattern in (operators, *patterns):
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"{pattern!r} is not a regular expression: {error}") from None
        self._writer = writer
        self._options = {
            "statistics": mode == "statistics",
            "overflow": overflow,
            "forward": forward,
            "backward": backward,
            "inputs": inputs,
            "outputs": outputs,
            "operators": operators,
            "places": bool(patterns) or model is not None or mode != "statistics",
            "modules": "|".join(f"(?:{pattern})" for pattern in patterns),
            "first_sequence": first_sequence,
        }
        self._before, self._after = before, after
        self._names = {id(module): name for name, module in model.named_modules()} if model is not None else {}
        self._chosen = (ranks is None or _rank() in ranks) and (steps is None or step in steps)
        self._thread: threading.Thread | None = None
        self._hooks: list[Any] = []
        self._ending = Sigterm(self.stop)
        self.failure: BaseException | None = None  # of the writer

    def start(self) -> Capture:
        if not self._chosen:
            return self
        _C._capture_start(self._options, self._before, self._after)
        Capture._active = self
        if self._options["places"]:
            self._follow_modules()
        self._thread = threading.Thread(target=self._write, name="torch_npu dump", daemon=True)
        self._thread.start()
        atexit.register(self.stop)
        self._ending.catch()
        return self

    def stop(self) -> None:
        """Waits until everything is written and closes the writer. A second call does nothing."""
        thread = self._thread
        if thread is None:
            return
        _C._capture_stop()
        for hook in self._hooks:
            hook.remove()
        interrupt = _join(thread)
        # If an interrupt ends this call above this line, it is called again when the process exits.
        self._thread, Capture._active = None, None
        atexit.unregister(self.stop)
        self._ending.restore()
        if failed := _C._capture_failed():
            reason = _C._capture_failure().split("\n")[0]
            print(f"torch_npu: {failed} calls could not be dumped: {reason}", file=sys.stderr, flush=True)
        if skipped := _C._capture_skipped_in_graphs():
            warnings.warn(f"operators inside a graph capture were not dumped: {skipped}", stacklevel=2)
        if interrupt is not None:
            raise interrupt

    def __enter__(self) -> Capture:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _write(self) -> None:
        try:
            while (entry := _C._capture_next()) is not None:
                self._writer.write(Record.of(entry))
                del entry  # frees the tensors before the wait for the next entry
        except BaseException as error:
            self._fail(error)
            _C._capture_abandon()
        try:
            self._writer.close()
        except BaseException as error:
            self._fail(error)

    def _forget(self) -> None:
        """Call it in the child of a fork. The thread and the file belong to the parent."""
        self._thread = None
        for hook in self._hooks:
            hook.remove()
        if hasattr(self._writer, "forget"):
            self._writer.forget()

    def _fail(self, error: BaseException) -> None:
        if self.failure is None:
            self.failure = error
            reason = str(error).split("\n")[0] or type(error).__name__
            print(f"torch_npu: the dump stops, and the program goes on: {reason}", file=sys.stderr, flush=True)

    def _follow_modules(self) -> None:
        path = threading.local()

        def enter(module: torch.nn.Module, _: Any) -> None:
            if torch.compiler.is_compiling():
                return
            path.names = [*getattr(path, "names", []), self._names.get(id(module), type(module).__name__)]
            _C._capture_set_module(path.names[-1])

        def leave(module: torch.nn.Module, _: Any, __: Any) -> None:
            if torch.compiler.is_compiling():
                return
            path.names = getattr(path, "names", [])[:-1]
            _C._capture_set_module(path.names[-1] if path.names else "")

        self._hooks.append(torch.nn.modules.module.register_module_forward_pre_hook(enter))
        self._hooks.append(torch.nn.modules.module.register_module_forward_hook(leave, always_call=True))


def _join(thread: threading.Thread) -> BaseException | None:
    """Waits for the thread. Returns the first exception that a signal handler raised during the wait."""
    interrupt: BaseException | None = None
    while thread.is_alive():
        try:
            thread.join()
        except BaseException as error:
            interrupt = interrupt or error
    return interrupt


def _forget_after_fork() -> None:
    capture, Capture._active = Capture._active, None
    if capture is not None:
        _C._capture_forget_after_fork()
        capture._forget()


os.register_at_fork(after_in_child=_forget_after_fork)


def _rank() -> int:
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank()
    with contextlib.suppress(ValueError):
        return int(os.environ.get("RANK", "0"))
    return 0
