"""The scale of one loss, and the division of gradients by it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch

from . import overflow
from .properties import checked_loss_scale, checked_positive

# Its inverse is a float32 number. A smaller scale would make all gradients inf, or divide by zero.
_SMALLEST = 2.0**-126


class LossScaler:
    """A constant scale, or a dynamic one.

    The dynamic scale is multiplied by the backoff factor after an overflow, whose step is skipped, and by the growth factor
    after scale_window steps in a row without one. It stays between min_loss_scale, or 2**-126, and max_loss_scale."""

    def __init__(
        self,
        loss_scale: float | str,
        init_scale: float = 2.0**16,
        scale_growth_factor: float = 2.0,
        scale_backoff_factor: float = 0.5,
        scale_window: int = 2000,
        min_loss_scale: float | None = None,
        max_loss_scale: float = 2.0**24,
        scale_factor: float | None = None,
    ) -> None:
        """scale_factor: the growth factor, whose inverse is the backoff factor."""
        loss_scale = checked_loss_scale(loss_scale)
        if scale_factor is not None:
            scale_growth_factor, scale_backoff_factor = scale_factor, 1 / checked_positive("scale_factor", scale_factor)
        self.dynamic = loss_scale == "dynamic"
        self._max_loss_scale = checked_positive("max_loss_scale", max_loss_scale)
        self._min_loss_scale = min_loss_scale if min_loss_scale is None else checked_positive("min_loss_scale", min_loss_scale)
        if self._min_loss_scale is not None and self._min_loss_scale > self._max_loss_scale:
            raise ValueError(f"min_loss_scale {min_loss_scale!r} must not be above max_loss_scale {max_loss_scale!r}")
        self._growth_factor = checked_positive("scale_growth_factor", scale_growth_factor)
        self._backoff_factor = checked_positive("scale_backoff_factor", scale_backoff_factor)
        if self._growth_factor < 1 or self._backoff_factor > 1:
            raise ValueError(
                f"scale_growth_factor {scale_growth_factor!r} must be at least 1, "
                f"and scale_backoff_factor {scale_backoff_factor!r} at most 1"
            )
        if not isinstance(scale_window, int) or isinstance(scale_window, bool) or scale_window < 1:
            raise ValueError(f"scale_window must be a whole number of at least 1, not {scale_window!r}")
        self._scale_seq_len = scale_window
        init_scale = checked_positive("dynamic_init_scale", init_scale)
        self._loss_scale = min(self._max_loss_scale, init_scale) if self.dynamic else float(loss_scale)
        self._unskipped = 0
        self._has_overflow = False
        self._found: dict[torch.device, torch.Tensor] = {}

    def loss_scale(self) -> float:
        return self._loss_scale

    def unscale(
        self,
        model_grads: Iterable[torch.Tensor | None],
        master_grads: Iterable[torch.Tensor | None],
        unused_scale: float | None = None,
        models_are_masters: bool = False,
        scale_override: float | None = None,
    ) -> None:
        """Writes the gradients, divided by the scale, into the master gradients. With a dynamic scale it looks for overflows."""
        scale = self._loss_scale if scale_override is None else scale_override
        pairs = [(model, master) for model, master in zip(model_grads, master_grads, strict=True) if model is not None]
        different = [(model, master) for model, master in pairs if model is not master]
        if different:
            with torch.no_grad():
                torch._foreach_copy_([master for _, master in different], [model for model, _ in different])
        self.unscale_([master for _, master in pairs if master is not None], scale)

    @torch.no_grad()
    def unscale_(self, grads: Sequence[torch.Tensor], scale: float | None = None) -> None:
        """Divides gradients by the scale in place. With a dynamic scale it looks for overflows; update_scale reads the result."""
        scale = self._loss_scale if scale is None else scale
        groups: dict[tuple[torch.device, torch.dtype], list[torch.Tensor]] = {}
        for grad in grads:
            values = grad._values() if grad.is_sparse else grad
            values = torch.view_as_real(values) if values.is_complex() else values
            groups.setdefault((values.device, values.dtype), []).append(values)
        for (device, _), members in groups.items():
            if self.dynamic:
                if device not in self._found:
                    self._found[device] = torch.zeros((), device=device)
                inverse = torch.full((), 1.0 / scale, device=device)
                torch._amp_foreach_non_finite_check_and_unscale_(members, self._found[device], inverse)
            elif scale != 1.0:
                torch._foreach_mul_(members, 1.0 / scale)

    def clear_overflow_state(self) -> None:
        self._has_overflow = False
        self._found.clear()

    def found_overflow(self) -> bool:
        """Whether an unscale since clear_overflow_state met an overflow. Waits for the device."""
        if not self._has_overflow and self.dynamic:
            self._has_overflow = any(bool(found.item()) for found in self._found.values())
        self._found.clear()
        return self._has_overflow

    def update_scale(self) -> bool:
        """Updates the scale after the unscale of all gradients. Returns whether the step must be skipped."""
        should_skip = self.found_overflow() and self.dynamic
        if should_skip:
            self._loss_scale = max(self._min_loss_scale or _SMALLEST, self._loss_scale * self._backoff_factor)
            self._unskipped = 0
        else:
            self._unskipped += 1
        if self.dynamic and self._unskipped == self._scale_seq_len:
            self._loss_scale = min(self._max_loss_scale, self._loss_scale * self._growth_factor)
            self._unskipped = 0
        return should_skip

    @staticmethod
    def get_npu_overflow_flag() -> bool:
        """Whether a device without inf has met an overflow since clear_npu_overflow_flag()."""
        return overflow.read_flags()

    @staticmethod
    def clear_npu_overflow_flag() -> None:
        overflow.clear_flags()

    def _state(self) -> dict[str, Any]:
        return {"loss_scale": self._loss_scale, "unskipped": self._unskipped}
