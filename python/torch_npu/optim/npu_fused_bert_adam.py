"""The Adam of BERT on combined tensors: no bias correction, decoupled weight decay, a schedule of the rate.

warmup: the share of t_total in which the rate grows; -1 for none. t_total: the steps of the schedule; -1 for a constant rate.
schedule: warmup_linear, warmup_constant, warmup_cosine or warmup_poly. As published, warmup_linear without a warm-up starts at
half the rate. max_grad_norm: gradients of a group and dtype are first clipped to this norm; -1 for no clipping.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch.optim.optimizer import required

from .npu_fused_optim_base import NpuFusedOptimizerBase, check

if TYPE_CHECKING:
    from torch.optim.optimizer import ParamsT

    from .chunk import Chunk, Part


# The factor of the rate after the warm-up; `done` and `warmup` are shares of t_total.
_SCHEDULES = {
    "warmup_cosine": lambda done, warmup: 0.5 * (1.0 + math.cos(math.pi * done)),
    "warmup_constant": lambda done, warmup: 1.0,
    "warmup_linear": lambda done, warmup: max((done - 1.0) / (warmup - 1.0), 0.0),
    "warmup_poly": lambda done, warmup: max(1.0 - done, 0.0) ** 0.5,
}


class NpuFusedBertAdam(NpuFusedOptimizerBase):
    def __init__(
        self,
        params: ParamsT,
        lr: float = required,
        warmup: float = -1,
        t_total: int = -1,
        schedule: str = "warmup_linear",
        b1: float = 0.9,
        b2: float = 0.999,
        e: float = 1e-6,
        weight_decay: float = 0.01,
        max_grad_norm: float = 1.0,
    ) -> None:
        if lr is required:
            raise ValueError("NpuFusedBertAdam needs a learning rate: NpuFusedBertAdam(params, lr=5e-5)")
        if warmup != -1 and not 0 <= warmup < 1:
            raise ValueError(f"NpuFusedBertAdam: warmup must be -1, or at least 0 and less than 1, not {warmup!r}")
        if schedule not in _SCHEDULES:
            raise ValueError(f"NpuFusedBertAdam: schedule must be one of {', '.join(_SCHEDULES)}, not {schedule!r}")
        check("NpuFusedBertAdam", b1=b1, b2=b2, e=e, weight_decay=weight_decay)
        options = {"lr": lr, "schedule": schedule, "warmup": warmup, "t_total": t_total, "b1": b1, "b2": b2, "e": e}
        super().__init__(params, {**options, "weight_decay": weight_decay, "max_grad_norm": max_grad_norm})

    def _before_step(self) -> None:
        for group, grad in self._group_grads():
            if group["max_grad_norm"] > 0 and grad.numel():
                norm = torch.linalg.vector_norm(grad, dtype=torch.promote_types(grad.dtype, torch.float32))
                grad.mul_((group["max_grad_norm"] / (norm + 1e-6)).clamp(max=1.0))

    def _step_part(self, part: Chunk | Part, group: dict[str, Any]) -> None:
        param, grad = part.param, part.grad
        exp_avg, exp_avg_sq = part.state("exp_avg"), part.state("exp_avg_sq")
        exp_avg.mul_(group["b1"]).add_(grad, alpha=1 - group["b1"])
        exp_avg_sq.mul_(group["b2"]).addcmul_(grad, grad, value=1 - group["b2"])
        update = exp_avg / exp_avg_sq.sqrt().add_(group["e"])
        if group["weight_decay"]:
            update.add_(param, alpha=group["weight_decay"])
        param.add_(update, alpha=-_rate(group, part.step - 1))


def _rate(group: dict[str, Any], steps: int) -> float:
    lr = float(group["lr"])
    if group["t_total"] == -1:
        return lr
    done, warmup = steps / group["t_total"], group["warmup"]
    if done < warmup:
        return lr * done / warmup
    return lr * _SCHEDULES[group["schedule"]](done, warmup)
