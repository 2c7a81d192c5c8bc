"""Copies batches to the device in advance."""

import functools
from collections.abc import Iterable
from typing import Any

import torch


class Prefetcher:
    """Moves batches (input, target) of a loader to npu, on another stream, one batch ahead. Without `stream`, all prefetchers of
    a device share one, so that a prefetcher per epoch takes no further memory.

    prefetcher = Prefetcher(loader)
    x, y = prefetcher.next()       # (None, None) at the end"""

    def __init__(self, loader: Iterable[tuple[torch.Tensor, torch.Tensor]], stream: Any = None) -> None:
        self.loader = iter(loader)
        self.stream = _stream(torch.npu.current_device()) if stream is None else stream
        self.preload()

    def preload(self) -> None:
        """Starts to copy the next batch."""
        nothing: tuple[Any, Any] = (None, None)
        self.next_input, self.next_target = next(self.loader, nothing)
        if self.next_input is None:
            return
        with torch.npu.stream(self.stream):
            self.next_input = self.next_input.npu(non_blocking=True)
            self.next_target = self.next_target.npu(non_blocking=True)

    def next(self) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        """Returns the batch and starts to copy the next one."""
        current = torch.npu.current_stream()
        current.wait_stream(self.stream)
        batch = self.next_input, self.next_target
        if batch[0] is not None:
            for tensor in batch:
                tensor.record_stream(current)
            self.preload()
        return batch


@functools.cache
def _stream(device: int) -> Any:
    return torch.npu.Stream(device)
