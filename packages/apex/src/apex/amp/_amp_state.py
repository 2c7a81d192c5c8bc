"""The state of amp in this process, and what programs read from it.

amp._amp_state.loss_scalers[0].loss_scale()
amp._amp_state.opt_properties.opt_level
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.weak import WeakIdKeyDictionary

if TYPE_CHECKING:
    from .casts import Casts
    from .properties import Properties
    from .report import OverflowReport
    from .scaler import LossScaler


class AmpState:
    """opt_properties: the options of the last amp.initialize; missing before the first. handle: the casts of O1, or None."""

    opt_properties: Properties

    def __init__(self) -> None:
        self.hard_override = False
        self.allow_incoming_model_not_fp32 = False
        self.verbosity = 1
        self.min_loss_scale: float | None = None
        self.max_loss_scale = 2.0**24
        self.loss_scalers: list[LossScaler] = []
        self.handle: Casts | None = None
        self.last_overflow: OverflowReport | None = None
        # Model parameter in low precision -> its float32 master.
        self.masters: Any = WeakIdKeyDictionary()
        # Model -> the functions that undo what amp.initialize did to it. They hold no reference to the model.
        self.undo: Any = WeakIdKeyDictionary()
        self.optimizers: Any = weakref.WeakSet()


_amp_state = AmpState()


def warn_or_err(message: str) -> None:
    """Raises RuntimeError; with _amp_state.hard_override it prints the message instead."""
    if not _amp_state.hard_override:
        raise RuntimeError(message)
    print(f"Warning:  {message}")


def maybe_print(message: str, rank0: bool = False) -> None:
    """Prints unless verbosity is 0. rank0: only the first process of torch.distributed prints."""
    if _amp_state.verbosity <= 0:
        return
    if rank0 and is_distributed() and torch.distributed.get_rank() != 0:
        return
    print(message)


def is_distributed() -> bool:
    return torch.distributed.is_available() and torch.distributed.is_initialized() and torch.distributed.get_world_size() > 1


def master_params(optimizer: torch.optim.Optimizer) -> Iterator[torch.Tensor]:
    """The parameters that the optimizer updates: the float32 masters with O2, the model's own parameters otherwise."""
    for group in optimizer.param_groups:
        yield from group["params"]
