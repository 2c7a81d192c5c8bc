"""AdamP (Heo et al., 2020) on combined tensors: removes the radial part from the step of a scale-invariant weight.

A weight of two or more dimensions is scale-invariant if its gradient is almost orthogonal to it, per channel or as a whole: the
cosine is below delta divided by the root of the size. Then its step loses the radial part, and its decay is wd_ratio times
weight_decay. This is decided per weight on the device, without a wait. The rest is computed for all weights at once.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

from .npu_fused_optim_base import NpuFusedOptimizerBase, check

if TYPE_CHECKING:
    from torch.optim.optimizer import ParamsT

    from .npu_fused_optim_base import Chunk


class NpuFusedAdamP(NpuFusedOptimizerBase):
    def __init__(
        self,
        params: ParamsT,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        delta: float = 0.1,
        wd_ratio: float = 0.1,
        nesterov: bool = False,
    ) -> None:
        check("NpuFusedAdamP", betas=betas, eps=eps, weight_decay=weight_decay, delta=delta, wd_ratio=wd_ratio)
        options = {"betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, {"lr": lr, **options, "delta": delta, "wd_ratio": wd_ratio, "nesterov": nesterov})

    def _step_chunk(self, chunk: Chunk, group: dict[str, Any]) -> None:
        beta1, beta2 = group["betas"]
        param, grad = chunk.param, chunk.grad
        exp_avg, exp_avg_sq = chunk.state("exp_avg"), chunk.state("exp_avg_sq")
        exp_avg.mul_(beta1).add_(grad, alpha=1 - beta1)
        exp_avg_sq.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        denominator = (exp_avg_sq.sqrt() / math.sqrt(1 - beta2**chunk.step)).add_(group["eps"])
        update = torch.lerp(grad, exp_avg, beta1) if group["nesterov"] else exp_avg
        update = update / denominator

        one = torch.ones((), dtype=param.dtype, device=param.device)
        decays = []
        for weight, its_grad, its_update in zip(chunk.params, chunk.per_param(grad), chunk.per_param(update), strict=True):
            decays.append(_project(weight, its_grad, its_update, group) if weight.dim() > 1 else one)
        if group["weight_decay"]:
            param.mul_(1 - group["lr"] * group["weight_decay"] * chunk.spread(torch.stack(decays)))
        param.add_(update, alpha=-group["lr"] / (1 - beta1**chunk.step))


def _project(weight: torch.Tensor, grad: torch.Tensor, update: torch.Tensor, group: dict[str, Any]) -> torch.Tensor:
    """Removes the radial part from the update in place. Returns the remaining share of weight_decay."""
    delta, eps = group["delta"], group["eps"]
    radial, found = torch.zeros_like(update), None
    for rows in (weight.shape[0], 1):
        w, g, u = (tensor.reshape(rows, -1) for tensor in (weight, grad, update))
        norm = w.norm(dim=1, keepdim=True).add_(eps)
        cosine = (g * w).sum(dim=1, keepdim=True).abs_() / (g.norm(dim=1, keepdim=True).add_(eps)) / norm
        invariant = cosine.max() < delta / math.sqrt(w.shape[1])
        direction = w / norm
        part = (direction * (direction * u).sum(dim=1, keepdim=True)).view_as(update)
        if found is None:
            radial, found = torch.where(invariant, part, radial), invariant
        else:
            radial, found = torch.where(~found & invariant, part, radial), found | invariant
    update.sub_(radial)
    return torch.where(found, group["wd_ratio"], 1.0).to(update.dtype)
