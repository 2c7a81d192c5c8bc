"""torch.set_default_tensor_type of a type on npu: what torch makes without being told a device and a dtype is of that type.

    torch.set_default_tensor_type(torch.npu.HalfTensor)     # or "torch.npu.HalfTensor"
    torch.zeros(2), torch.tensor([0.5]), torch.Tensor([1])  # float16 on npu
    torch.set_default_tensor_type(torch.FloatTensor)        # back on the CPU

torch.set_default_device, by which it is done, holds for the thread that calls it; torch.Tensor is exchanged for all.
"""

import functools

import torch

from . import _C


def with_npu(original):
    """torch's set_default_tensor_type, and the types of npu."""
    is_on_npu = False

    @functools.wraps(original)
    def set_default_tensor_type(t, /):
        nonlocal is_on_npu
        name = t if isinstance(t, str) else getattr(t, "__name__", "")
        kind = name.removeprefix("torch.npu.")
        goes_to_npu = kind != name
        original(f"torch.{kind}" if goes_to_npu else t)
        if goes_to_npu or is_on_npu:
            torch.set_default_device("npu" if goes_to_npu else None)
            _C._set_tensor_constructor(_tensor if goes_to_npu else None)
        is_on_npu = goes_to_npu

    return set_default_tensor_type


def _tensor(*args, **kwargs):
    """torch.Tensor(*args), of the default dtype."""
    return torch.empty(0, device="npu").new(*args, **kwargs)
