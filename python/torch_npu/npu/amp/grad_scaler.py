"""torch.amp.GradScaler for npu, with a scale that may also stay as it is.

    scaler = torch.npu.amp.GradScaler(init_scale=1024, dynamic=False)

A device that turns what is too large into its largest number leaves no infinity to find in the gradients: there unscaling looks
at the overflow flags of the devices too. They are of the device, not of a scaler: what overflows between two calls of update()
counts, in the forward pass and elsewhere, and update() of any scaler clears them. So update two scalers after the steps of both.
"""

import collections
import warnings

import torch
from torch.amp.grad_scaler import _refresh_per_optimizer_state

from .. import utils
from .common import amp_definitely_not_available


class GradScaler(torch.amp.GradScaler):
    """torch.amp.GradScaler("npu", ...). dynamic=False: the scale changes only by update(new_scale), and no step is skipped."""

    def __init__(
        self,
        init_scale=2.0**16,
        growth_factor=2.0,
        backoff_factor=0.5,
        growth_interval=2000,
        dynamic=True,
        enabled=True,
    ):
        if enabled and amp_definitely_not_available():
            warnings.warn("torch.npu.amp.GradScaler is enabled, but there is no NPU; it does nothing.", stacklevel=2)
            enabled = False
        super().__init__("npu", init_scale, growth_factor, backoff_factor, growth_interval, enabled)
        self._dynamic = dynamic

    def _unscale_grads_(self, optimizer, inv_scale, found_inf, allow_fp16):
        found = super()._unscale_grads_(optimizer, inv_scale, found_inf, allow_fp16)
        if not self._dynamic:
            for number in found.values():
                number.zero_()
        return found

    def update(self, new_scale=None):
        if self._enabled and not self._dynamic and new_scale is None:
            self._check_scale_growth_tracker("update")
            self._per_optimizer_states = collections.defaultdict(_refresh_per_optimizer_state)
            return
        super().update(new_scale)

    def state_dict(self):
        state = super().state_dict()
        return {**state, "dynamic": self._dynamic} if state else state

    def load_state_dict(self, state_dict):
        """Of this class or of torch.amp.GradScaler, which leaves `dynamic` as it is."""
        super().load_state_dict(state_dict)
        self._dynamic = state_dict.get("dynamic", self._dynamic)

    @staticmethod
    def get_npu_overflow_flag():
        """As torch.npu.get_npu_overflow_flag."""
        return utils.get_npu_overflow_flag()

    @staticmethod
    def clear_npu_overflow_flag():
        """As torch.npu.clear_npu_overflow_flag."""
        utils.clear_npu_overflow_flag()
