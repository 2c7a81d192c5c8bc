"""MultiTensorApply: calls an operator of amp_C."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch


class MultiTensorApply:
    """Calls op(chunk_size, noop_flag_buffer, tensor_lists, *args)."""

    available = True
    warned = False
    import_err: Exception | None = None

    def __init__(self, chunk_size: int) -> None:
        """chunk_size: passed on; the operators here do not need it."""
        self.chunk_size = chunk_size

    def check_avail(self) -> None:
        pass

    def __call__(
        self, op: Callable[..., Any], noop_flag_buffer: torch.Tensor, tensor_lists: Sequence[Sequence[torch.Tensor]], *args: Any
    ) -> Any:
        return op(self.chunk_size, noop_flag_buffer, tensor_lists, *args)
