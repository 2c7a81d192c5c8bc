"""Whether autocast is on for npu, and to which type it casts."""

import torch

from .devices import is_bf16_supported


def get_amp_supported_dtype():
    """What torch.autocast("npu") takes as dtype."""
    return [torch.float16, torch.bfloat16, torch.float32] if is_bf16_supported() else [torch.float16, torch.float32]


def is_autocast_enabled():
    return torch.is_autocast_enabled("npu")


def set_autocast_enabled(enable):
    torch.set_autocast_enabled("npu", enable)


def get_autocast_dtype():
    return torch.get_autocast_dtype("npu")


def set_autocast_dtype(dtype):
    torch.set_autocast_dtype("npu", dtype)
