"""torch.optim.Adam on combined tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from .npu_fused_optim_base import NpuFusedOptimizerBase, check, tensor_step

if TYPE_CHECKING:
    from torch.optim.optimizer import ParamsT

    from .chunk import Chunk


class NpuFusedAdam(NpuFusedOptimizerBase):
    _stored_step = staticmethod(tensor_step)

    def __init__(
        self,
        params: ParamsT,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
    ) -> None:
        check(type(self).__name__, betas=betas, eps=eps, weight_decay=weight_decay)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad})

    def _step_chunk(self, chunk: Chunk, group: dict[str, Any]) -> None:
        step = torch._fused_adamw_ if self._is_decoupled(group) else torch._fused_adam_
        step(
            [chunk.param],
            [chunk.grad],
            [chunk.state("exp_avg")],
            [chunk.state("exp_avg_sq")],
            [chunk.state("max_exp_avg_sq")] if group["amsgrad"] else [],
            [chunk.step_tensor()],
            lr=float(group["lr"]),
            beta1=group["betas"][0],
            beta2=group["betas"][1],
            weight_decay=group["weight_decay"],
            eps=group["eps"],
            amsgrad=group["amsgrad"],
            maximize=group.get("maximize", False),
        )

    def _is_decoupled(self, group: dict[str, Any]) -> bool:
        """Whether the decay is that of AdamW. A group of a torch.optim checkpoint says it."""
        return group.get("decoupled_weight_decay", False)
