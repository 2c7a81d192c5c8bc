"""torch.amp.GradScaler for npu, with an optional constant scale.

    scaler = torch.npu.amp.GradScaler(init_scale=1024, dynamic=False)

On a device that saturates, an overflow gives the largest number instead of inf, so unscaling also checks the overflow flags of
the devices. A flag belongs to the device, not to a scaler. It covers everything since the last update(), also the forward pass,
and update() of any scaler clears it. With two scalers, call both update()s after both steps.
"""

from __future__ import annotations

import collections
import warnings
from typing import Any

import torch
from torch.amp.grad_scaler import _refresh_per_optimizer_state

from .. import utils
from .common import amp_definitely_not_available


class GradScaler(torch.amp.GradScaler):
    """torch.amp.GradScaler("npu", ...). dynamic=False: the scale changes only by update(new_scale), and no step is skipped."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        dynamic: bool = True,
        enabled: bool = True,
    ) -> None:
        if enabled and amp_definitely_not_available():
            warnings.warn("torch.npu.amp.GradScaler is enabled, but there is no NPU; it does nothing.", stacklevel=2)
            enabled = False
        super().__init__("npu", init_scale, growth_factor, backoff_factor, growth_interval, enabled)
        self._dynamic = dynamic

    def _unscale_grads_(
        self, optimizer: torch.optim.Optimizer, inv_scale: torch.Tensor, found_inf: torch.Tensor, allow_fp16: bool
    ) -> dict[torch.device, torch.Tensor]:
        found = super()._unscale_grads_(optimizer, inv_scale, found_inf, allow_fp16)
        if not self._dynamic:
            for number in found.values():
                number.zero_()
        return found

    def update(self, new_scale: float | torch.Tensor | None = None) -> None:
        if self._enabled and not self._dynamic and new_scale is None:
            self._check_scale_growth_tracker("update")
            self._per_optimizer_states: Any = collections.defaultdict(_refresh_per_optimizer_state)
            return
        super().update(new_scale)

    def state_dict(self) -> dict[str, Any]:
        state = super().state_dict()
        return {**state, "dynamic": self._dynamic} if state else state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """state_dict: of this class, or of torch.amp.GradScaler, which does not change `dynamic`."""
        super().load_state_dict(state_dict)
        self._dynamic = state_dict.get("dynamic", self._dynamic)

    @staticmethod
    def get_npu_overflow_flag() -> bool:
        """torch.npu.get_npu_overflow_flag."""
        return utils.get_npu_overflow_flag()

    @staticmethod
    def clear_npu_overflow_flag() -> None:
        """torch.npu.clear_npu_overflow_flag."""
        utils.clear_npu_overflow_flag()
