"""Graphs whose operators get other arguments between replays.

    with torch.npu.graph(graph, auto_dispatch_capture=True): ...
    graph.replay()
    graph.update(cpu_update_input=[{"actual_seq_lengths": [7]}])

An operator whose name has a handler is captured as a group of tasks behind an external event. update() calls it again with the
arguments that changed, which replaces those of the tasks, and records the event: a replay waits there until then. The operator
must write where it wrote before, so that a handler gives it an `out`.
"""

import contextlib
import copy
import logging
from typing import ClassVar

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from .. import _C
from . import graphs, streams

_LOG = logging.getLogger(__name__)
_HANDLERS = {}


class NpuGraphOpHandler:
    """How an operator is captured and updated; subclasses override what they need. Classes are registered, never instances.

    UPDATE_SPECS says, by the operator's name, which keys of an update it takes, and where they go:
    {"my_op.out": [("arg", 2, "lengths"), ("kwarg", "scale", "scale")]}.
    """

    UPDATE_SPECS: ClassVar = {}

    @classmethod
    def get_update_specs(cls, op_name):
        return cls.UPDATE_SPECS.get(op_name, [])

    @classmethod
    def prepare_capture(cls, func, args, kwargs):
        """What is captured instead of func(*args, **kwargs). The handler of that operator's name is the one for updates."""
        return func, args, kwargs

    @classmethod
    def record_wrap_kwarg(cls, key, value, tensor_param_names):
        """What is kept of an argument: tensors themselves, copies of all else."""
        return _kept(value)

    @classmethod
    def postprocess_result(cls, result, kwargs):
        """What the program gets for the operator's result."""
        return result

    @classmethod
    def update_args(cls, dispatch_record, update_input):
        for place, where, key in cls.get_update_specs(dispatch_record.func.__name__):
            if key not in update_input:
                continue
            if place == "kwarg":
                dispatch_record.kwargs[where] = update_input[key]
            elif where < len(dispatch_record.args):
                dispatch_record.args[where] = update_input[key]


def register_npu_graph_handler(op_names):
    """Class decorator: the handler of operators, by names as "my_op.out"."""

    def register(handler):
        for name in [op_names] if isinstance(op_names, str) else op_names:
            if name in _HANDLERS:
                _LOG.warning("%s replaces %s as handler of %s", handler.__name__, _HANDLERS[name].__name__, name)
            _HANDLERS[name] = handler
        return handler

    return register


class Record:
    """A captured call of an operator."""

    def __init__(self, event, handle, func, args, kwargs):
        self.event = event
        self.handle = handle
        self.func = func
        self.args = args
        self.kwargs = kwargs

    @property
    def op_cache_entry(self):
        return self.func


class UpdatableCapture(TorchDispatchMode):
    """While it is entered, operators with a handler are captured so that update() can change them."""

    def __init__(self):
        super().__init__()
        self.records = []
        self._stream = None

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
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

    def update(self, inputs, pool):
        """What operators need on the way comes from the graph's pool, where nobody else takes it."""
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

    def _update(self, record, given):
        handler = _HANDLERS.get(record.func.__name__)
        if handler is None:
            raise RuntimeError(f"no handler is registered for {record.func.__name__}, which the graph has captured")
        record.kwargs.update((key, value) for key, value in given.items() if key in record.kwargs)
        handler.update_args(record, given)
        graphs.graph_task_update_begin(self._stream, record.handle)
        try:
            record.func(*record.args, **record.kwargs)
        except BaseException:
            with contextlib.suppress(RuntimeError):  # it lacks the tasks of the operator that raised
                graphs.graph_task_update_end(self._stream)
            raise
        graphs.graph_task_update_end(self._stream)
        record.event.record(self._stream)


def _kept(value):
    if isinstance(value, torch.Tensor):
        return value
    if isinstance(value, (list, tuple)):
        return type(value)(_kept(element) for element in value)
    return copy.deepcopy(value)
