"""Counts the floating point operations of a program while it runs.

    counter = FlopsCounter()
    counter.start()
    model(x).sum().backward()
    recorded, traversed = counter.get_flops()
    counter.stop()

It counts operators that torch.utils.flop_counter has a formula for (matrix products, convolutions, attention), forward and
backward, on any device, of the calling thread. Operators between pause() and resume() are traversed, but not recorded.
"""

from __future__ import annotations

from typing import Any

from torch.utils.flop_counter import FlopCounterMode


class FlopsCounter:
    def __init__(self) -> None:
        self._mode: Any = None
        self._paused_at: int | None = None
        self._clear()

    def __enter__(self) -> FlopsCounter:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._leave()

    def start(self) -> None:
        """Starts the count; does nothing if it has started."""
        if self._mode is None:
            self._mode = FlopCounterMode(display=False)
            self._mode.__enter__()

    def stop(self) -> None:
        """Stops and clears the count."""
        self._leave()
        self._clear()

    def pause(self) -> None:
        if self._paused_at is None:
            self._paused_at = self._traversed()

    def resume(self) -> None:
        self._skipped = self._in_pauses()
        self._paused_at = None

    def get_flops(self) -> list[int]:
        """[recorded, traversed]: without and with the operators in pauses."""
        traversed = self._traversed()
        return [traversed - self._in_pauses(), traversed]

    def _clear(self) -> None:
        self._before, self._skipped, self._paused_at = 0, 0, None

    def _leave(self) -> None:
        if self._mode is not None:
            self._mode.__exit__(None, None, None)
            self._before += self._mode.get_total_flops()
            self._mode = None

    def _traversed(self) -> int:
        return self._before + (self._mode.get_total_flops() if self._mode else 0)

    def _in_pauses(self) -> int:
        return self._skipped + (self._traversed() - self._paused_at if self._paused_at is not None else 0)
