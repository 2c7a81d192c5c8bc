"""The switches of torch.backends.cuda. They set torch's own switches, which apply to every device.

torch.npu.backends.enable_flash_sdp(False)
torch.npu.backends.flash_sdp_enabled()            # False
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch.backends import cuda as _cuda

flash_sdp_enabled = _cuda.flash_sdp_enabled
enable_flash_sdp = _cuda.enable_flash_sdp
mem_efficient_sdp_enabled = _cuda.mem_efficient_sdp_enabled
enable_mem_efficient_sdp = _cuda.enable_mem_efficient_sdp
math_sdp_enabled = _cuda.math_sdp_enabled
enable_math_sdp = _cuda.enable_math_sdp


@contextlib.contextmanager
def sdp_kernel(enable_flash: bool = True, enable_math: bool = True, enable_mem_efficient: bool = True) -> Iterator[None]:
    """Context manager: sets the three switches inside it."""
    before = flash_sdp_enabled(), math_sdp_enabled(), mem_efficient_sdp_enabled()
    _set(enable_flash, enable_math, enable_mem_efficient)
    try:
        yield
    finally:
        _set(*before)


def _set(flash: bool, math: bool, mem_efficient: bool) -> None:
    enable_flash_sdp(flash)
    enable_math_sdp(math)
    enable_mem_efficient_sdp(mem_efficient)


def preferred_linalg_library(backend: str | torch._C._LinalgBackend | None = None) -> torch._C._LinalgBackend:
    """torch.backends.cuda.preferred_linalg_library. It has no effect on npu, which has one library."""
    if backend is not None and not isinstance(backend, str | torch._C._LinalgBackend):
        raise TypeError(f"backend must be None, a text such as 'default', or a torch._C._LinalgBackend, but got {backend!r}")
    return torch.backends.cuda.preferred_linalg_library(backend)
