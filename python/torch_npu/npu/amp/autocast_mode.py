"""torch.autocast("npu") without its first argument."""

import torch


class autocast(torch.amp.autocast):
    """torch.amp.autocast("npu", ...), with float16 where no dtype is given."""

    def __init__(self, enabled=True, dtype=torch.float16, cache_enabled=True):
        super().__init__("npu", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


def custom_fwd(fwd=None, *, cast_inputs=None):
    """torch.amp.custom_fwd for npu: decorates the forward of a torch.autograd.Function."""
    return torch.amp.custom_fwd(fwd, device_type="npu", cast_inputs=cast_inputs)


def custom_bwd(bwd):
    """torch.amp.custom_bwd for npu: decorates the backward of a torch.autograd.Function."""
    return torch.amp.custom_bwd(bwd, device_type="npu")
