"""torch.autocast("npu") without its first argument."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


class autocast(torch.amp.autocast):
    """torch.amp.autocast("npu", ...), with float16 where no dtype is given."""

    def __init__(self, enabled: bool = True, dtype: torch.dtype = torch.float16, cache_enabled: bool = True) -> None:
        super().__init__("npu", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


def custom_fwd(fwd: Callable[..., Any] | None = None, *, cast_inputs: torch.dtype | None = None) -> Any:
    """torch.amp.custom_fwd for npu: decorates the forward of a torch.autograd.Function."""
    return torch.amp.custom_fwd(fwd, device_type="npu", cast_inputs=cast_inputs)


def custom_bwd(bwd: Callable[..., Any]) -> Callable[..., Any]:
    """torch.amp.custom_bwd for npu: decorates the backward of a torch.autograd.Function."""
    return torch.amp.custom_bwd(bwd, device_type="npu")
