"""amp.scale_loss and amp.disable_casts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from . import overflow
from ._amp_state import _amp_state, master_params
from ._process_optimizer import abort_backward, post_backward, prepare_backward
from .report import report_overflow


@contextmanager
def scale_loss(
    loss: torch.Tensor,
    optimizers: torch.optim.Optimizer | Sequence[torch.optim.Optimizer],
    loss_id: int = 0,
    model: torch.nn.Module | None = None,
    delay_unscale: bool = False,
    delay_overflow_check: bool = False,
) -> Iterator[torch.Tensor]:
    """Gives the loss times its scale. At the end the gradients of the optimizers are divided by the scale.

        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
        optimizer.step()

    optimizers: those whose parameters get gradients, one or a list. loss_id: which of the num_losses scales is used.
    delay_unscale: the gradients keep the scale, and the next scale_loss without it divides their sum; do not step before.
    An overflow of a dynamic scale makes the next step of these optimizers do nothing. If the block raises, the gradients are
    those before it, except that gradients with a scale (of delay_unscale) are dropped.
    """
    if not hasattr(_amp_state, "opt_properties"):
        raise RuntimeError("amp.scale_loss needs amp.initialize first: model, optimizer = amp.initialize(model, optimizer)")
    if not _amp_state.opt_properties.enabled:
        yield loss
        return
    if not isinstance(loss, torch.Tensor):
        raise TypeError(f"amp.scale_loss takes a tensor as loss, not {type(loss).__name__}: pass the result of the criterion")
    chosen = _checked_optimizers(optimizers)
    scaler = _scaler(loss_id)
    scale = scaler.loss_scale()
    if scale == 1.0 and not scaler.dynamic and not any(optimizer._amp_stash.needs_unscale for optimizer in chosen):
        yield loss.float()
        return

    _check_blocks(chosen)
    # Flags from an earlier backward pass with delay_unscale are kept in the optimizers.
    saturates = scaler.dynamic and overflow.devices_saturate()
    devices = {param.device for optimizer in chosen for param in optimizer._amp_stash.params()} if saturates else set()
    overflow.clear_flags(devices)
    if not delay_unscale:
        for optimizer in chosen:
            prepare_backward(optimizer)
    scaled = loss.float() * scale
    for optimizer in chosen:
        optimizer._amp_stash.is_in_block = True
    try:
        yield scaled
    except BaseException:
        for optimizer in chosen:
            abort_backward(optimizer)
        raise
    finally:
        for optimizer in chosen:
            optimizer._amp_stash.is_in_block = False

    flagged = overflow.read_flags(devices)
    if delay_unscale:
        for optimizer in chosen:
            optimizer._amp_stash.params_have_scaled_gradients = True
            optimizer._amp_stash.overflowed |= flagged
        return
    scaler.clear_overflow_state()
    scaler._has_overflow = flagged or any(optimizer._amp_stash.overflowed for optimizer in chosen)
    for optimizer in chosen:
        post_backward(optimizer, scaler)
    if saturates:
        scaler._has_overflow = overflow.any_rank(scaler.found_overflow())
    if delay_overflow_check:
        return
    if scaler.update_scale():
        _amp_state.last_overflow = report_overflow(chosen, scaled, loss_id, scale)
        for optimizer in chosen:
            optimizer._amp_stash.skipped_by = (loss_id, scaler)


@contextmanager
def disable_casts() -> Iterator[None]:
    """Turns the casts of O1 off in this block. Does nothing with other levels."""
    if _amp_state.handle is None:
        yield
        return
    with _amp_state.handle.switched(False):
        yield


def _checked_optimizers(optimizers: Any) -> list[Any]:
    chosen = list(optimizers) if isinstance(optimizers, (list, tuple)) else [optimizers]
    for optimizer in chosen:
        if not hasattr(optimizer, "_amp_stash"):
            raise RuntimeError(
                f"amp.scale_loss got {type(optimizer).__name__}, which did not pass through amp.initialize: use the optimizer "
                "that amp.initialize returned"
            )
    return list(dict.fromkeys(chosen))


def _check_blocks(optimizers: list[Any]) -> None:
    """Refuses what would divide a gradient by the scale twice."""
    seen: set[int] = set()
    for optimizer in optimizers:
        name = type(optimizer).__name__
        if optimizer._amp_stash.is_in_block:
            raise RuntimeError(
                f"amp.scale_loss got {name} inside a block of amp.scale_loss for the same optimizer: end that block first, or "
                "add the losses and scale their sum"
            )
        if len(optimizers) == 1:
            return
        params = {id(param) for param in master_params(optimizer)}
        if seen & params:
            raise RuntimeError(
                f"amp.scale_loss got optimizers that share {len(seen & params)} parameters, and {name} is the second: give each "
                "parameter to one optimizer only, or scale a loss for each optimizer"
            )
        seen |= params


def _scaler(loss_id: int) -> Any:
    scalers = _amp_state.loss_scalers
    if not isinstance(loss_id, int) or not -len(scalers) <= loss_id < len(scalers):
        raise IndexError(
            f"amp.scale_loss: loss_id must be 0 to {len(scalers) - 1}, not {loss_id!r}: pass num_losses to amp.initialize"
        )
    return scalers[loss_id]
