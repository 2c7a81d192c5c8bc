"""torch.optim.AdamW on combined tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .npu_fused_adam import NpuFusedAdam

if TYPE_CHECKING:
    from torch.optim.optimizer import ParamsT


class NpuFusedAdamW(NpuFusedAdam):
    def __init__(
        self,
        params: ParamsT,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad)

    def _is_decoupled(self, group: dict[str, Any]) -> bool:
        return True
