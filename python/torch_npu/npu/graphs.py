"""Graphs of device work that are recorded once and replayed: not offered. Nothing is ever captured, and programs may ask so."""

from .._offer import not_offered

_REASON = "NPU graphs are not captured; call the model itself"


@not_offered(_REASON)
class NPUGraph:
    """The counterpart of torch.cuda.CUDAGraph."""

    def capture_begin(self, pool=None, capture_error_mode="global"): ...
    def capture_end(self): ...
    def replay(self): ...
    def reset(self): ...
    def pool(self): ...
    def update(self, cpu_update_input): ...
    def debug_dump(self, debug_path): ...
    def super_kernel_optimize(self, optimize_options=None, debug_options=None): ...


@not_offered(_REASON)
class graph:
    """The counterpart of torch.cuda.graph."""

    def __init__(self, npu_graph, pool=None, stream=None, auto_dispatch_capture=False, capture_error_mode="global"): ...


@not_offered(_REASON)
class NpuGraphOpHandler:
    """How an operator's arguments are changed in a captured graph."""

    @staticmethod
    def get_update_specs(op_name): ...
    @staticmethod
    def prepare_capture(func, args, kwargs): ...
    @staticmethod
    def record_wrap_kwarg(key, value, tensor_param_names): ...
    @staticmethod
    def postprocess_result(result, kwargs): ...
    @staticmethod
    def update_args(dispatch_record, update_input): ...


@not_offered(_REASON)
def register_npu_graph_handler(op_names): ...


def is_current_stream_capturing():
    """False."""
    return False


@not_offered(_REASON)
def graph_pool_handle(): ...


@not_offered(_REASON)
def make_graphed_callables(callables, sample_args, num_warmup_iters=3, allow_unused_input=False, pool=None): ...


@not_offered(_REASON)
def graph_task_group_begin(stream): ...


@not_offered(_REASON)
def graph_task_group_end(stream): ...


@not_offered(_REASON)
def graph_task_update_begin(stream, handle): ...


@not_offered(_REASON)
def graph_task_update_end(stream): ...


@not_offered("operators are not fused into one kernel; leave the scope out")
def super_kernel_scope_begin(scope_name=None): ...


@not_offered("operators are not fused into one kernel; leave the scope out")
def super_kernel_scope_end(scope_name=None): ...
