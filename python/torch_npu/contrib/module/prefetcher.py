"""Copies to the device, one batch ahead."""

import torch


class Prefetcher:
    """Batches (input, target) of a loader on npu, copied by another stream while the current one works.

    prefetcher = Prefetcher(loader)
    x, y = prefetcher.next()       # (None, None) at the end"""

    def __init__(self, loader, stream=None):
        self.loader = iter(loader)
        self.stream = torch.npu.Stream() if stream is None else stream
        self.preload()

    def preload(self):
        """Starts to copy the next batch."""
        self.next_input, self.next_target = next(self.loader, (None, None))
        if self.next_input is None:
            return
        with torch.npu.stream(self.stream):
            self.next_input = self.next_input.npu(non_blocking=True)
            self.next_target = self.next_target.npu(non_blocking=True)

    def next(self):
        """The batch, and starts to copy the next one."""
        current = torch.npu.current_stream()
        current.wait_stream(self.stream)
        batch = self.next_input, self.next_target
        if batch[0] is not None:
            for tensor in batch:
                tensor.record_stream(current)
            self.preload()
        return batch
