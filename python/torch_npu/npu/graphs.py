"""Graphs of device work that are captured once and replayed.

    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        y = model(x)                  # recorded; nothing runs
    x.copy_(batch)
    graph.replay()                    # y holds the result for the batch

Inputs and outputs are the same tensors in every replay. A call that waits for the device, such as item(), raises during a
capture. Random operators draw new numbers in each replay.
"""

from __future__ import annotations

import functools
import gc
import os
from typing import TYPE_CHECKING, Any, Literal

from .. import _C
from .._api_status import not_offered
from . import devices, memory, streams
from ._lazy import _lazy_init

if TYPE_CHECKING:
    from types import TracebackType

    import torch

    from ._graph_update import UpdatableCapture


_NO_FUSION = "operators are not fused into one kernel; leave it out"


class NPUGraph:
    """A captured graph and its memory, which it keeps until reset() or its deletion."""

    def __init__(self) -> None:
        _lazy_init()
        self._graph = _C._NPUGraph()
        self._updatable: UpdatableCapture | None = None

    def capture_begin(self, pool: tuple[int, int] | None = None, capture_error_mode: str = "global") -> None:
        """Captures the current stream. pool: a graph_pool_handle(), or the pool() of another graph to share its memory.

        capture_error_mode: calls that bypass streams, such as synchronous copies, are refused during the capture in all threads
        ("global"), in this thread ("thread_local") or in none ("relaxed").
        """
        self._graph.capture_begin(pool, capture_error_mode)

    def capture_end(self) -> None:
        self._graph.capture_end()

    def replay(self) -> None:
        """Queues the captured work on the current stream."""
        self._graph.replay()

    def reset(self) -> None:
        """Deletes the graph and releases its memory."""
        self._graph.reset()
        self._updatable = None

    def pool(self) -> tuple[int, int]:
        return self._graph.pool()

    def register_generator_state(self, generator: torch.Generator) -> None:
        """Makes random operators with that generator draw new numbers in each replay. The capture of such an operator does this
        itself."""
        self._graph.register_generator(generator)

    def update(self, cpu_update_input: list[dict[str, Any]]) -> None:
        """Gives new arguments to operators that have a handler: a list with a dict for each of them, or one dict for all."""
        if self._updatable is None:
            raise RuntimeError("a graph can be updated if it was captured with torch.npu.graph(..., auto_dispatch_capture=True)")
        self._updatable.update(cpu_update_input, self.pool())

    def debug_dump(self, debug_path: str | os.PathLike[str]) -> None:
        """Writes the captured tasks to a file, as JSON."""
        self._graph.debug_dump(os.fspath(debug_path))

    @not_offered(_NO_FUSION)
    def super_kernel_optimize(self, optimize_options: Any = None, debug_options: Any = None) -> Any: ...


class graph:
    """Context manager: captures the operators inside it, on `stream` or a stream of its own."""

    def __init__(
        self,
        npu_graph: NPUGraph,
        pool: tuple[int, int] | None = None,
        stream: streams.Stream | None = None,
        auto_dispatch_capture: bool = False,
        capture_error_mode: str = "global",
    ) -> None:
        self.npu_graph = npu_graph
        self.pool = pool
        self.capture_error_mode = capture_error_mode
        self.capture_stream = _stream_for_captures(devices.current_device()) if stream is None else stream
        self._updatable = None
        if auto_dispatch_capture:
            from ._graph_update import UpdatableCapture

            self._updatable = UpdatableCapture()

    def __enter__(self) -> None:
        devices.synchronize()
        if os.environ.get("TORCH_NPUGRAPH_GC") == "1":
            gc.collect()
        memory.empty_cache()
        self._context = streams.stream(self.capture_stream)
        self._context.__enter__()
        try:
            self.npu_graph.capture_begin(self.pool, self.capture_error_mode)
        except BaseException:
            self._context.__exit__(None, None, None)
            raise
        self.npu_graph._updatable = self._updatable
        if self._updatable is not None:
            self._updatable.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> Literal[False]:
        if self._updatable is not None:
            self._updatable.__exit__(kind, error, traceback)
        try:
            if kind is None:
                self.npu_graph.capture_end()
            else:
                self.npu_graph.reset()
        finally:
            self._context.__exit__(kind, error, traceback)
        return False


@functools.cache
def _stream_for_captures(device: int) -> streams.Stream:
    return streams.Stream(device)


def is_current_stream_capturing() -> bool:
    """Whether the current stream is being captured."""
    return _C._npu_captures_exist() and _C._npu_is_current_stream_capturing()


def graph_pool_handle() -> tuple[int, int]:
    """A memory pool for several graphs. Graphs that share a pool must not be replayed at the same time."""
    return _C._npu_new_pool_id()


def make_graphed_callables(
    callables: Any,
    sample_args: tuple[Any, ...],
    num_warmup_iters: int = 3,
    allow_unused_input: bool = False,
    pool: tuple[int, int] | None = None,
) -> Any:
    """Functions or modules, one or a tuple, whose forward and backward passes are replayed graphs.

    Each call copies its tensors into those of sample_args. The next call overwrites its results. A module is changed in place; in
    the mode (training or evaluation) that was not captured it runs without graphs.
    """
    _lazy_init()
    from . import _graphed

    return _graphed.make_graphed_callables(callables, sample_args, num_warmup_iters, allow_unused_input, pool)


def graph_task_group_begin(stream: streams.Stream) -> None:
    """Begins a group of captured tasks that can be updated together."""
    _C._npu_task_group_begin(*streams._identity(stream))


def graph_task_group_end(stream: streams.Stream) -> int:
    """Ends the group. Returns its handle, for graph_task_update_begin()."""
    return _C._npu_task_group_end(*streams._identity(stream))


def graph_task_update_begin(stream: streams.Stream, handle: int) -> None:
    """Until graph_task_update_end(), operators on the stream do not run. Their arguments replace those of the group's tasks, in
    order."""
    _C._npu_task_update_begin(*streams._identity(stream), handle)


def graph_task_update_end(stream: streams.Stream) -> None:
    _C._npu_task_update_end(*streams._identity(stream))


@not_offered(_NO_FUSION)
def super_kernel_scope_begin(scope_name: str | None = None) -> None: ...


@not_offered(_NO_FUSION)
def super_kernel_scope_end(scope_name: str | None = None) -> None: ...
