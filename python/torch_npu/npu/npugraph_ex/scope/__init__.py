"""Parts of a compiled model with settings of their own: not offered."""

from __future__ import annotations

from typing import Any

from ...._api_status import not_offered


@not_offered("models are not compiled into NPU graphs; call torch.npu.set_stream_limit before the operators")
def limit_core_num(op_aicore_num: int, op_vectorcore_num: int, stream: Any = None) -> Any: ...


@not_offered("models are not compiled into NPU graphs; call torch.npu.set_deterministic_level before the operators")
def deterministic(level: int) -> Any: ...
