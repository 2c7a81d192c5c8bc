"""Graphs of device work that are captured once and replayed.

    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        y = model(x)                  # recorded; nothing runs
    x.copy_(batch)
    graph.replay()                    # y holds the result for the batch

Inputs and outputs are the same tensors in every replay. Whatever waits for the device, such as item(), raises within a capture.
Random operators draw anew with each replay.
"""

import functools
import gc
import os

from .. import _C
from .._offer import not_offered
from . import devices, memory, streams
from ._lazy import _lazy_init

_NO_FUSION = "operators are not fused into one kernel; leave it out"


class NPUGraph:
    """A captured graph and its memory, which it keeps until it is reset or goes."""

    def __init__(self):
        _lazy_init()
        self._graph = _C._NPUGraph()
        self._updatable = None

    def capture_begin(self, pool=None, capture_error_mode="global"):
        """Captures the current stream. pool: as of graph_pool_handle() or of another graph's pool(), to share memory with it.

        capture_error_mode says whose calls past all streams, such as copies that wait, are refused meanwhile: those of all
        threads ("global"), of this one ("thread_local") or of none ("relaxed").
        """
        self._graph.capture_begin(pool, capture_error_mode)

    def capture_end(self):
        self._graph.capture_end()

    def replay(self):
        """Queues the captured work on the current stream."""
        self._graph.replay()

    def reset(self):
        """Forgets the graph and lets its memory go."""
        self._graph.reset()
        self._updatable = None

    def pool(self):
        return self._graph.pool()

    def register_generator_state(self, generator):
        """Random operators with that generator draw anew with each replay; happens by itself when they are captured."""
        self._graph.register_generator(generator)

    def update(self, cpu_update_input):
        """Gives operators that have a handler other arguments: a list of a dict for each of them, or of one for all."""
        if self._updatable is None:
            raise RuntimeError("a graph can be updated if it was captured with torch.npu.graph(..., auto_dispatch_capture=True)")
        self._updatable.update(cpu_update_input, self.pool())

    def debug_dump(self, debug_path):
        """Writes the captured tasks to a file, as JSON."""
        self._graph.debug_dump(os.fspath(debug_path))

    @not_offered(_NO_FUSION)
    def super_kernel_optimize(self, optimize_options=None, debug_options=None): ...


class graph:
    """Context manager: what is inside is captured, on a stream of its own unless one is given."""

    def __init__(self, npu_graph, pool=None, stream=None, auto_dispatch_capture=False, capture_error_mode="global"):
        self.npu_graph = npu_graph
        self.pool = pool
        self.capture_error_mode = capture_error_mode
        self.capture_stream = _stream_for_captures(devices.current_device()) if stream is None else stream
        self._updatable = None
        if auto_dispatch_capture:
            from ._graph_update import UpdatableCapture

            self._updatable = UpdatableCapture()

    def __enter__(self):
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

    def __exit__(self, kind, error, traceback):
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
def _stream_for_captures(device):
    return streams.Stream(device)


def is_current_stream_capturing():
    """Whether what the current stream gets is recorded for a graph."""
    return _C._npu_captures_exist() and _C._npu_is_current_stream_capturing()


def graph_pool_handle():
    """A pool for graphs that share their memory: they must not be replayed at the same time."""
    return _C._npu_new_pool_id()


def make_graphed_callables(callables, sample_args, num_warmup_iters=3, allow_unused_input=False, pool=None):
    """Functions or modules, one or a tuple, whose forward and backward passes are replayed graphs.

    Each call copies its tensors into those of sample_args, and its results are overwritten by the next call. A module is changed
    in place; in the other mode, training or evaluation, it runs as before.
    """
    _lazy_init()
    from . import _graphed

    return _graphed.make_graphed_callables(callables, sample_args, num_warmup_iters, allow_unused_input, pool)


def graph_task_group_begin(stream):
    """Tasks captured on the stream from now on can be updated together."""
    _C._npu_task_group_begin(*streams._identity(stream))


def graph_task_group_end(stream):
    """The handle of the group, for graph_task_update_begin()."""
    return _C._npu_task_group_end(*streams._identity(stream))


def graph_task_update_begin(stream, handle):
    """The operators that the stream gets do not run: their arguments replace those of the group's tasks, one after the other."""
    _C._npu_task_update_begin(*streams._identity(stream), handle)


def graph_task_update_end(stream):
    _C._npu_task_update_end(*streams._identity(stream))


@not_offered(_NO_FUSION)
def super_kernel_scope_begin(scope_name=None): ...


@not_offered(_NO_FUSION)
def super_kernel_scope_end(scope_name=None): ...
