"""torch.set_default_tensor_type for types on npu: tensors made without a device and a dtype are of that type.

    torch.set_default_tensor_type(torch.npu.HalfTensor)     # or "torch.npu.HalfTensor"
    torch.zeros(2), torch.tensor([0.5]), torch.Tensor([1])  # float16 on npu
    torch.set_default_tensor_type(torch.FloatTensor)        # back on the CPU

It calls torch.set_default_device, which applies to the calling thread. The constructor torch.Tensor is replaced for all threads.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from . import _C


def with_npu(original: Callable[..., None]) -> Callable[..., None]:
    """Wraps torch.set_default_tensor_type so that it accepts types of npu."""
    is_on_npu = False

    @functools.wraps(original)
    def set_default_tensor_type(t: Any, /) -> None:
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


def _tensor(*args: Any, **kwargs: Any) -> torch.Tensor:
    """Replaces the constructor of torch.Tensor; a tensor argument is aliased."""
    return torch.empty(0, device="npu").new(*args, **kwargs)
