"""torch.optim.SGD on combined tensors. A sparse gradient is made dense."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.optim.optimizer import required

from .npu_fused_optim_base import NpuFusedOptimizerBase, check

if TYPE_CHECKING:
    from torch.optim.optimizer import ParamsT

    from .chunk import Chunk


class NpuFusedSGD(NpuFusedOptimizerBase):
    _stored_step = None

    def __init__(
        self,
        params: ParamsT,
        lr: float = required,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
    ) -> None:
        if lr is required:
            raise ValueError("NpuFusedSGD needs a learning rate: NpuFusedSGD(params, lr=0.1)")
        check("NpuFusedSGD", momentum=momentum, weight_decay=weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("NpuFusedSGD: nesterov needs a momentum and no dampening")
        options = {"momentum": momentum, "dampening": dampening, "weight_decay": weight_decay, "nesterov": nesterov}
        super().__init__(params, {"lr": lr, **options})

    def _step_chunk(self, chunk: Chunk, group: dict[str, Any]) -> None:
        first = bool(group["momentum"]) and not chunk.has("momentum_buffer")
        torch._fused_sgd_(
            [chunk.param],
            [chunk.grad],
            [chunk.state("momentum_buffer")] if group["momentum"] else [],
            lr=float(group["lr"]),
            weight_decay=group["weight_decay"],
            momentum=group["momentum"],
            dampening=group["dampening"],
            nesterov=group["nesterov"],
            maximize=group.get("maximize", False),
            is_first_step=first,
        )

    def _dense_grad(self, grad: torch.Tensor) -> torch.Tensor:
        return grad.to_dense()

    def _steps_of(self, param: torch.Tensor) -> int:
        """Whether there was a step with momentum."""
        return int(self.state.get(param, {}).get("momentum_buffer") is not None)
