"""Profilers: torch's own measures npu. Marks and ranges are for NVIDIA's tools, which do not see npu, so they do nothing."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from ..._api_status import marked
from .replacement import Replacement


def replacements() -> Iterator[Replacement]:
    depth = 0

    def range_push(msg: str) -> int:
        nonlocal depth
        depth += 1
        return depth - 1

    def range_pop() -> int:
        nonlocal depth
        depth -= 1
        return depth

    ranges = {
        "range_push": range_push,
        "range_pop": range_pop,
        "range_start": lambda msg: 0,
        "range_end": lambda range_id: None,
        "mark": lambda msg: None,
    }
    for name, twin in ranges.items():
        yield torch.cuda.nvtx, name, marked(twin, "no-op", "NVIDIA's tools do not see npu")
    yield torch.autograd.profiler.profile, "__init__", _profile_on_npu(torch.autograd.profiler.profile.__init__)
    yield torch.autograd.profiler.emit_nvtx, "__enter__", lambda self: self if self.enabled else None
    yield torch.autograd.profiler.emit_nvtx, "__exit__", lambda self, *error: False


def _profile_on_npu(init: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(init)
    def __init__(self: Any, *args: Any, use_cuda: bool = False, use_device: str | None = None, **kwargs: Any) -> None:
        on_cuda = use_cuda or (use_device is not None and use_device == "cuda")
        init(self, *args, use_device="npu" if on_cuda else use_device, **kwargs)

    return __init__
