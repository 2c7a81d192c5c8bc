"""Copies batches of detection networks to the device in advance."""

from collections.abc import Iterable, Iterator, Sized
from typing import Any

import torch


class PreLoader:
    """Moves batches of a loader to a device, on a stream of its own, one batch ahead. A batch is a list of dicts, as in
    detectron2; tensors, and objects with a method to(device) such as Instances, are moved.

    preloader = PreLoader(loader, "npu:0")
    batch = preloader.next()       # None at the end
    for batch in preloader: ..."""

    def __init__(self, loader: Iterable[Any], device: Any) -> None:
        self.device = torch.device(device) if isinstance(device, (str, int)) else device
        self._source = loader
        self.loader = iter(loader)
        self.stream = torch.npu.Stream(self.device)
        self.preload()

    def __len__(self) -> int:
        if not isinstance(self._source, Sized):
            raise TypeError(f"PreLoader has no length: {type(self._source).__name__} has none")
        return len(self._source)

    def __iter__(self) -> Iterator[Any]:
        while (batch := self.next()) is not None:
            yield batch

    def preload(self) -> None:
        """Starts to copy the next batch."""
        self.next_data = next(self.loader, None)
        if self.next_data is not None:
            with torch.npu.stream(self.stream):
                self.next_data = self._moved(self.next_data)

    def next(self) -> Any:
        """Returns the batch and starts to copy the next one."""
        current = torch.npu.current_stream(self.device)
        current.wait_stream(self.stream)
        batch = self.next_data
        if batch is not None:
            _record(batch, current)
            self.preload()
        return batch

    def _moved(self, item: Any) -> Any:
        if isinstance(item, dict):
            return {key: self._moved(value) for key, value in item.items()}
        if isinstance(item, (list, tuple)):
            moved = [self._moved(each) for each in item]
            return type(item)(*moved) if hasattr(item, "_fields") else type(item)(moved)
        if isinstance(item, torch.Tensor):
            return item.to(self.device, non_blocking=True)
        if callable(getattr(item, "to", None)):
            return item.to(self.device)
        return item


def _record(item: Any, stream: Any) -> None:
    """Tells the allocator that the stream uses the tensors of a batch, also those in attributes of its objects."""
    if isinstance(item, torch.Tensor):
        if item.device.type == "npu":
            item.record_stream(stream)
    elif isinstance(item, dict):
        for each in item.values():
            _record(each, stream)
    elif isinstance(item, (list, tuple)):
        for each in item:
            _record(each, stream)
    elif callable(getattr(item, "to", None)):
        _record(vars(item) if hasattr(item, "__dict__") else (), stream)
