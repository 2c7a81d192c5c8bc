"""The state of autocast for npu: whether it is enabled, and the dtype it casts to."""

from __future__ import annotations

import torch

from .devices import is_bf16_supported


def get_amp_supported_dtype() -> list[torch.dtype]:
    """The dtypes that torch.autocast("npu") accepts."""
    return [torch.float16, torch.bfloat16, torch.float32] if is_bf16_supported() else [torch.float16, torch.float32]


def is_autocast_enabled() -> bool:
    return torch.is_autocast_enabled("npu")


def set_autocast_enabled(enable: bool) -> None:
    torch.set_autocast_enabled("npu", enable)


def get_autocast_dtype() -> torch.dtype:
    return torch.get_autocast_dtype("npu")


def set_autocast_dtype(dtype: torch.dtype) -> None:
    torch.set_autocast_dtype("npu", dtype)
