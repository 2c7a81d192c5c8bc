"""Mixed precision: torch.amp for npu, under the names that programs for NPUs use."""

import functools

import torch


def get_amp_supported_dtype():
    """What torch.autocast("npu") takes as dtype."""
    return [torch.float16, torch.bfloat16]


def is_bf16_supported():
    return True


class autocast(torch.amp.autocast):
    """torch.amp.autocast("npu", ...), with float16 where no dtype is given."""

    def __init__(self, enabled=True, dtype=torch.float16, cache_enabled=True):
        super().__init__("npu", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


class GradScaler(torch.amp.GradScaler):
    """torch.amp.GradScaler("npu", ...)."""

    def __init__(self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000, enabled=True):
        super().__init__("npu", init_scale, growth_factor, backoff_factor, growth_interval, enabled)


custom_fwd = functools.partial(torch.amp.custom_fwd, device_type="npu")
custom_bwd = functools.partial(torch.amp.custom_bwd, device_type="npu")
