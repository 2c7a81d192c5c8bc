"""Chunks: the parameters that one step of a fused optimizer updates together, as flat tensors.

A chunk holds the parameters of one group and dtype that have made the same number of steps. Its states are flat tensors too; the
optimizer's state holds views of them, with the shapes of the parameters. A state may be replaced, for example by a checkpoint:
`is_intact` notices it, and the optimizer makes new chunks.

An operator on a large tensor waits for memory. `parts` are pieces of a chunk that fit in the cache, for formulas of several
operators.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..utils.combine_tensors import split_like

PART_ELEMENTS = 1 << 20

_step = operator.itemgetter("step")


class Part:
    """Some elements of a chunk. param, grad and state(name) are flat; step is the number of steps, with the current one."""

    def __init__(self, chunk: Chunk, begin: int) -> None:
        self._chunk, self._elements = chunk, slice(begin, begin + PART_ELEMENTS)
        self.param, self.grad = chunk.param[self._elements], chunk.grad[self._elements]
        self._flat: dict[str, torch.Tensor] = {}

    @property
    def step(self) -> int:
        return self._chunk.step

    def state(self, name: str, start: float = 0.0) -> torch.Tensor:
        if name not in self._flat:
            self._flat[name] = self._chunk.state(name, start)[self._elements]
        return self._flat[name]

    def buffer(self, name: str) -> torch.Tensor:
        return self._chunk.buffer(name)[self._elements]


class Chunk:
    """Parameters of one group, dtype and number of steps.

    param, grad, state(name): flat tensors of all of them. params: the parameters. step: the number of steps, with the current one
    during a step. count: makes the value of "step" in the optimizer's state from the number; None: there is no such value.
    """

    def __init__(
        self,
        group: dict[str, Any],
        params: list[torch.Tensor],
        states: dict[torch.Tensor, dict[str, Any]],
        param: torch.Tensor,
        grad: torch.Tensor,
        step: int,
        count: Callable[[int], Any] | None,
    ) -> None:
        self.group, self.params, self.param, self.grad, self.step = group, params, param, grad, step
        self._states, self._count = states, count
        self._dicts: list[dict[str, Any]] = []  # the states of the parameters, once there are any
        self._flat: dict[str, torch.Tensor] = {}
        self._views: dict[str, list[torch.Tensor]] = {}
        self._buffers: dict[str, tuple[torch.Tensor, list[torch.Tensor]]] = {}
        self._stored_step: Any = None  # all states of the chunk hold this object
        self._device_step: torch.Tensor | None = None
        self._cached: dict[str, Any] = {}
        self._parts: list[Part] | None = None

    def parts(self) -> Sequence[Chunk | Part]:
        """The chunk itself, or its parts if it is large."""
        if self.param.numel() <= PART_ELEMENTS:
            return (self,)
        if self._parts is None:
            self._parts = [Part(self, begin) for begin in range(0, self.param.numel(), PART_ELEMENTS)]
        return self._parts

    def state(self, name: str, start: float = 0.0) -> torch.Tensor:
        """A state with one value per element; `start` is its value before the first step."""
        if name not in self._flat:
            self._combine(name, start)
        return self._flat[name]

    def has(self, name: str) -> bool:
        return name in self._flat or any(self._states.get(param, {}).get(name) is not None for param in self.params)

    def is_intact(self) -> bool:
        """Whether the optimizer's state still holds the values of the chunk."""
        try:
            for name, views in self._views.items():
                if not all(map(operator.is_, map(operator.itemgetter(name), self._dicts), views)):
                    return False
            stored = self._stored_step
            if stored is None:
                return True
            return stored == self.step and all(map(operator.is_, map(_step, self._dicts), itertools.repeat(stored)))
        except KeyError:
            return False

    def count_step(self) -> None:
        self.step += 1
        if self._count is None:
            return
        if isinstance(self._stored_step, torch.Tensor):
            self._stored_step.add_(1)
            return
        self._stored_step = self._count(self.step)
        for state in self._state_dicts():
            state["step"] = self._stored_step

    def step_tensor(self) -> torch.Tensor:
        """The number of steps as a tensor on the device, for the fused kernels."""
        if self._device_step is None:
            self._device_step = torch.full((), float(self.step - 1), device=self.param.device)
        return self._device_step.add_(1)

    def buffer(self, name: str) -> torch.Tensor:
        """A flat tensor for intermediate results; it keeps its memory."""
        return self._buffer(name)[0]

    def buffer_views(self, name: str) -> list[torch.Tensor]:
        """The parts of a buffer, with the shapes of the parameters."""
        return self._buffer(name)[1]

    def spread(self, values: torch.Tensor) -> torch.Tensor:
        """Repeats one number per parameter for each of its elements."""
        numels = self.cached("numels", lambda: torch.tensor([param.numel() for param in self.params]).to(self.param.device))
        return values.repeat_interleave(numels, output_size=self.param.numel())

    def cached(self, name: str, make: Callable[[], Any]) -> Any:
        """What depends on the shapes of the parameters only; made once."""
        if name not in self._cached:
            self._cached[name] = make()
        return self._cached[name]

    def _state_dicts(self) -> list[dict[str, Any]]:
        if not self._dicts:
            self._dicts = [self._states[param] for param in self.params]
        return self._dicts

    def _buffer(self, name: str) -> tuple[torch.Tensor, list[torch.Tensor]]:
        if name not in self._buffers:
            flat = torch.empty_like(self.param)
            self._buffers[name] = flat, split_like(flat, self.params)
        return self._buffers[name]

    def _combine(self, name: str, start: float) -> None:
        flat = torch.full_like(self.param, start)
        views = split_like(flat, self.params)
        states = self._state_dicts()
        known = [(view, state[name]) for view, state in zip(views, states, strict=True) if state.get(name) is not None]
        if known:
            torch._foreach_copy_(*map(list, zip(*known, strict=True)))
        for view, state in zip(views, states, strict=True):
            state[name] = view
        self._flat[name], self._views[name] = flat, views
