"""Floating point operations of a program, counted while it runs.

    counter = FlopsCounter()
    counter.start()
    model(x).sum().backward()
    recorded, traversed = counter.get_flops()
    counter.stop()

Counted are the operators that torch.utils.flop_counter has a formula for (products of matrices, convolutions, attention), forward
and backward, on any device, from the calling thread. What runs between pause() and resume() is traversed, but not recorded.
"""

from torch.utils.flop_counter import FlopCounterMode


class FlopsCounter:
    def __init__(self):
        self._mode = None
        self._clear()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self._leave()

    def start(self):
        """Begins to count; a counter that counts already goes on."""
        if self._mode is None:
            self._mode = FlopCounterMode(display=False)
            self._mode.__enter__()

    def stop(self):
        """Ends the count and forgets it."""
        self._leave()
        self._clear()

    def pause(self):
        if self._paused_at is None:
            self._paused_at = self._traversed()

    def resume(self):
        self._skipped = self._in_pauses()
        self._paused_at = None

    def get_flops(self):
        """[recorded, traversed]: without and with what ran in pauses."""
        traversed = self._traversed()
        return [traversed - self._in_pauses(), traversed]

    def _clear(self):
        self._before, self._skipped, self._paused_at = 0, 0, None

    def _leave(self):
        if self._mode is not None:
            self._mode.__exit__(None, None, None)
            self._before += self._mode.get_total_flops()
            self._mode = None

    def _traversed(self):
        return self._before + (self._mode.get_total_flops() if self._mode else 0)

    def _in_pauses(self):
        return self._skipped + (self._traversed() - self._paused_at if self._paused_at is not None else 0)
