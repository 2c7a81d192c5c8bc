"""Parts of a compiled model with settings of their own: not offered."""

from ...._offer import not_offered


@not_offered("models are not compiled into NPU graphs; call torch.npu.set_stream_limit before the operators")
def limit_core_num(op_aicore_num, op_vectorcore_num, stream=None): ...


@not_offered("models are not compiled into NPU graphs; call torch.npu.set_deterministic_level before the operators")
def deterministic(level): ...
