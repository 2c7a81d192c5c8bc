"""Names that are added to modules and classes of torch, and functions of torch that are wrapped.

torch.utils.dumper(use_dump=True)             # see capture/dumper.py; loaded at its first use
torch.version.cann                            # loads the device library
torch.distributed.is_hccl_available()         # from torch_npu.distributed, like reinit_process_group and ProcessGroupHCCL
torch.autograd.profiler.profile(use_npu=True) # see profiler/autograd.py
torch.compiler.npugraph_mark_step_begin()     # does nothing
model.cast_weight("npu:0")                    # does nothing
packed_sequence.npu("npu:1")                  # torch's own; a device of another type is an error
torch.nn.LazyLinear(3).npu()                  # works before the parameters are initialised
torch.set_default_tensor_type("torch.npu.FloatTensor")   # see _default_tensor_type.py
torch.amp.GradScaler("npu").update(1024.0)     # clears the overflow flags, as update() does
print(tensor)                                 # formatted on the CPU: torch uses float64, which no chip has
"""

from __future__ import annotations

import atexit
import functools
import importlib
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any

import torch

from . import _C, _default_tensor_type, npu
from ._api_status import no_op


def register() -> None:
    torch.version.__getattr__ = _of_version
    torch.distributed.__getattr__ = _of_distributed
    torch.utils.__getattr__ = _of_utils
    torch.autograd.profiler.profile.__init__ = _with_use_npu(torch.autograd.profiler.profile.__init__)
    torch.autograd.profiler.profile._prepare_trace = _not_nested(torch.autograd.profiler.profile._prepare_trace)
    torch.autograd.profiler.profile._start_trace = _prepared(torch.autograd.profiler.profile._start_trace)
    torch.autograd.profiler.profile.__exit__ = _ending_on_errors(torch.autograd.profiler.profile.__exit__)
    torch.compiler.npugraph_mark_step_begin = npugraph_mark_step_begin
    torch.nn.Module.cast_weight = cast_weight
    torch.nn.utils.rnn.PackedSequence.npu = _to_npu_only(torch.nn.utils.rnn.PackedSequence.npu)
    torch.nn.parameter.UninitializedTensorMixin._allowed_methods.append(torch.Tensor.npu)
    torch.set_default_tensor_type = _default_tensor_type.with_npu(torch.set_default_tensor_type)
    torch.amp.GradScaler.update = _clearing_flags(torch.amp.GradScaler.update)
    torch._tensor_str._Formatter.__init__ = _on_host(torch._tensor_str._Formatter.__init__)


def _of_version(name: str) -> Any:
    if name == "cann":
        return _C._get_cann_version("CANN")
    raise AttributeError(f"module 'torch.version' has no attribute {name!r}")


def _of_utils(name: str) -> Any:
    if name == "dumper":
        return importlib.import_module("torch_npu.capture.dumper").dumper
    raise AttributeError(f"module 'torch.utils' has no attribute {name!r}")


def _of_distributed(name: str) -> Any:
    if name in ("is_hccl_available", "reinit_process_group", "ProcessGroupHCCL"):
        return getattr(importlib.import_module("torch_npu.distributed"), name)
    raise AttributeError(f"module 'torch.distributed' has no attribute {name!r}")


def _clearing_flags(update: Callable[..., None]) -> Callable[..., None]:
    """Wraps GradScaler.update. The operator that adapts the scale clears the flags; with a given scale that operator does not
    run."""

    @functools.wraps(update)
    def clearing(self: Any, new_scale: Any = None) -> None:
        update(self, new_scale)
        is_given = self._enabled and new_scale is not None
        if is_given and self._scale.device.type == "npu" and not npu.utils.is_support_inf_nan():
            _C._npu_clear_overflow_flags()

    return clearing


def _on_host(init: Callable[..., None]) -> Callable[..., None]:
    """Wraps a constructor that reads the values of a tensor: it gets a copy on the CPU."""

    @functools.wraps(init)
    def __init__(self: Any, tensor: torch.Tensor) -> None:
        init(self, tensor.cpu() if tensor.device.type == "npu" else tensor)

    return __init__


def _with_use_npu(init: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(init)
    def __init__(self: Any, *args: Any, use_npu: bool = False, use_npu_simple: bool = False, **kwargs: Any) -> None:
        if not use_npu and not use_npu_simple:
            init(self, *args, **kwargs)
            return
        from .profiler import autograd

        init(self, *args, **autograd.arguments(kwargs))
        if type(self) is torch.autograd.profiler.profile:
            self.__class__ = autograd.NpuProfile
            self.npu_simple = use_npu_simple

    return __init__


def _not_nested(prepare: Callable[..., None]) -> Callable[..., None]:
    """Wraps the preparation of torch's profiler: a second one would silently take the records of the first. Profilers that both
    record the host alone behave as in torch."""
    from .npu import _prof

    def end_at_exit() -> None:
        if torch.autograd.profiler._is_profiler_enabled and _recording.process == os.getpid():
            torch._C._autograd._disable_profiler()

    # Torch crashes at the end of a program whose profiler still records.
    atexit.register(end_at_exit)

    @functools.wraps(prepare)
    def _prepare_trace(self: Any) -> None:
        with _recording.lock:
            first = _recording.profiler()
            is_taken = torch.autograd.profiler._is_profiler_enabled or first not in (None, self)
            on_npu = "npu" in (self.use_device, getattr(first, "use_device", None)) or _prof.records_operators()
            if is_taken and on_npu:
                raise RuntimeError("profile: another profiler is recording, and profilers do not nest; stop it first")
            _recording.profiler, _recording.process = weakref.ref(self), os.getpid()
        try:
            prepare(self)
        except BaseException:
            _recording.end(self)
            raise
        self._npu_prepared = True

    return _prepare_trace


class _Recording:
    """The profiler of torch that is prepared or records. Between both, in the warm-up of a schedule, torch takes a second one."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.profiler: Callable[[], Any] = lambda: None
        self.process = 0

    def end(self, profiler: Any) -> None:
        if self.profiler() is profiler:
            self.profiler = lambda: None


_recording = _Recording()


def _prepared(start: Callable[..., None]) -> Callable[..., None]:
    """Wraps the start of torch's recording. Torch leaves it unprepared, and crashes, if on_trace_ready of the cycle before raised
    an error, such as a full disk."""

    @functools.wraps(start)
    def _start_trace(self: Any) -> None:
        if not getattr(self, "_npu_prepared", False):
            self._prepare_trace()
        self._npu_prepared = False
        start(self)

    return _start_trace


def _ending_on_errors(exit: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps the end of torch's profiler, which waits for the device: the recording ends even if the device reports an error, or
    if Ctrl-C interrupts the wait. It does not wait while a graph is captured, because that would end the capture."""

    @functools.wraps(exit)
    def __exit__(self: Any, *raised: Any) -> Any:
        failure: BaseException | None = None
        device, captures = getattr(self, "use_device", None), False
        if device == "npu" and npu.is_initialized():
            captures = _C._npu_captures_exist()
            try:
                if not captures:
                    npu.synchronize()
            except (RuntimeError, KeyboardInterrupt) as error:
                failure = error
        if captures:
            self.use_device = None  # so that torch does not wait
        try:
            result = exit(self, *raised)
        finally:
            _recording.end(self)
            if captures:
                self.use_device = device
        if failure is not None:
            raise failure
        return result

    return __exit__


@no_op("torch.compile captures no NPU graphs")
def npugraph_mark_step_begin() -> None:
    """Marks the beginning of a step of training or inference."""


@no_op("softnpu computes in every format, so weights keep their format")
def cast_weight(self: torch.nn.Module, device: Any) -> None:
    """Casts the weights of a module to the format in which the device computes."""
    if device is not None and not isinstance(device, int):
        torch.device(device)


def _to_npu_only(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def to_npu(self: Any, *args: Any, **kwargs: Any) -> Any:
        device = kwargs.get("device", args[0] if args else None)
        if isinstance(device, (str, torch.device)):
            npu._utils._get_device_index(device)
        return method(self, *args, **kwargs)

    return to_npu
