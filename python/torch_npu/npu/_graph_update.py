"""Graphs whose operators get new arguments between replays.

    with torch.npu.graph(graph, auto_dispatch_capture=True): ...
    graph.replay()
    graph.update(cpu_update_input=[{"actual_seq_lengths": [7]}])

An operator with a handler is captured as a group of tasks that waits for an external event. update() calls the operator again
with the new arguments, which replace those of the tasks, and records the event. A replay waits for the event. The operator must
write to the same memory each time, so the handler passes it an `out`.
"""

from __future__ import annotations

import contextlib
import copy
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from .. import _C
from . import graphs, streams

_LOG = logging.getLogger(__name__)
_HANDLERS: dict[str, type[NpuGraphOpHandler]] = {}


class NpuGraphOpHandler:
    """Captures and updates an operator. Subclasses override class methods; the class itself is registered, not an instance.

    UPDATE_SPECS maps the operator's name to the keys of an update that it takes, and the arguments that they replace:
    {"my_op.out": [("arg", 2, "lengths"), ("kwarg", "scale", "scale")]}.
    """

    UPDATE_SPECS: ClassVar[dict[str, list[tuple[str, Any, str]]]] = {}

    @classmethod
    def get_update_specs(cls, op_name: str) -> list[tuple[str, Any, str]]:
        return cls.UPDATE_SPECS.get(op_name, [])

    @classmethod
    def prepare_capture(cls, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Any, Sequence[Any], dict[str, Any]]:
        """The call that is captured instead of func(*args, **kwargs). The handler of the returned operator makes the updates."""
        return func, args, kwargs

    @classmethod
    def record_wrap_kwarg(cls, key: str, value: Any, tensor_param_names: list[str]) -> Any:
        """The value that is kept of an argument: a tensor itself, a copy of anything else."""
        return _kept(value)

    @classmethod
    def postprocess_result(cls, result: Any, kwargs: dict[str, Any]) -> Any:
        """The result that the program gets."""
        return result

    @classmethod
    def update_args(cls, dispatch_record: Record, update_input: dict[str, Any]) -> None:
        for place, where, key in cls.get_update_specs(dispatch_record.func.__name__):
            if key not in update_input:
                continue
            if place == "kwarg":
                dispatch_record.kwargs[where] = update_input[key]
            elif where < len(dispatch_record.args):
                dispatch_record.args[where] = update_input[key]


def register_npu_graph_handler(op_names: str | Iterable[str]) -> Callable[[type[NpuGraphOpHandler]], type[NpuGraphOpHandler]]:
    """Class decorator: registers a handler for operators by name, such as "my_op.out"."""

    def register(handler: type[NpuGraphOpHandler]) -> type[NpuGraphOpHandler]:
        for name in [op_names] if isinstance(op_names, str) else op_names:
            if name in _HANDLERS:
                _LOG.warning("%s replaces %s as handler of %s", handler.__name__, _HANDLERS[name].__name__, name)
            _HANDLERS[name] = handler
        return handler

    return register


class Record:
    """A captured call of an operator."""

    def __init__(self, event: streams.ExternalEvent, handle: int, func: Any, args: list[Any], kwargs: dict[str, Any]) -> None:
        self.event = event
        self.handle = handle
        self.func = func
        self.args = args
        self.kwargs = kwargs

    @property
    def op_cache_entry(self) -> Any:
        return self.func


class UpdatableCapture(TorchDispatchMode):
    """A dispatch mode: operators with a handler are captured so that update() can change them."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[Record] = []
        self._stream: Any = None

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        handler = _HANDLERS.get(func.__name__)
        if handler is None:
            return func(*args, **kwargs)
        stream = streams.current_stream()
        event = streams.ExternalEvent()
        event.wait(stream)
        event.reset(stream)
        func, args, kwargs = handler.prepare_capture(func, args, dict(kwargs))
        graphs.graph_task_group_begin(stream)
        result = func(*args, **kwargs)
        handle = graphs.graph_task_group_end(stream)
        names = [argument.name for argument in func._schema.arguments if isinstance(argument.type, torch.TensorType)]
        kept = {key: handler.record_wrap_kwarg(key, value, names) for key, value in kwargs.items()}
        self.records.append(Record(event, handle, func, [_kept(value) for value in args], kept))
        return handler.postprocess_result(result, kwargs)

    def update(self, inputs: Sequence[dict[str, Any]], pool: tuple[int, int]) -> None:
        """Temporary memory of the operators comes from the graph's pool, which no other code uses."""
        if len(inputs) == 1:
            inputs = list(inputs) * len(self.records)
        if len(inputs) != len(self.records):
            raise RuntimeError(
                f"{len(self.records)} operators of the graph can be updated, but {len(inputs)} updates were given; "
                "give one for each, or one for all"
            )
        if self._stream is None:
            self._stream = streams.Stream()
        with streams.stream(self._stream):
            use = _C._UsePool(pool, self._stream.device_index)
            try:
                for record, given in zip(self.records, inputs, strict=True):
                    self._update(record, given)
            finally:
                del use

    def _update(self, record: Record, given: dict[str, Any]) -> None:
        handler = _HANDLERS.get(record.func.__name__)
        if handler is None:
            raise RuntimeError(f"no handler is registered for {record.func.__name__}, which the graph has captured")
        record.kwargs.update((key, value) for key, value in given.items() if key in record.kwargs)
        handler.update_args(record, given)
        graphs.graph_task_update_begin(self._stream, record.handle)
        try:
            record.func(*record.args, **record.kwargs)
        except BaseException:
            with contextlib.suppress(RuntimeError):  # the tasks of the operator that raised are missing
                graphs.graph_task_update_end(self._stream)
            raise
        graphs.graph_task_update_end(self._stream)
        record.event.record(self._stream)


def _kept(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value
    if isinstance(value, (list, tuple)):
        return type(value)(_kept(element) for element in value)
    return copy.deepcopy(value)
