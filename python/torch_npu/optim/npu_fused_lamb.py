"""LAMB (You et al., 2019) on combined tensors: Adam without bias correction; each parameter's step is scaled to its norm.

The norm of a parameter is limited to 10. adam: no scaling. use_global_grad_norm: gradients are first divided by their common norm
if that is above one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from .npu_fused_optim_base import NpuFusedOptimizerBase, check

if TYPE_CHECKING:
    from torch.optim.optimizer import ParamsT

    from .npu_fused_optim_base import Chunk


class NpuFusedLamb(NpuFusedOptimizerBase):
    def __init__(
        self,
        params: ParamsT,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0,
        adam: bool = False,
        use_global_grad_norm: bool = False,
    ) -> None:
        check("NpuFusedLamb", betas=betas, eps=eps, weight_decay=weight_decay)
        options = {"betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, {"lr": lr, **options, "adam": adam, "use_global_grad_norm": use_global_grad_norm})

    def _before_step(self) -> None:
        self._norm = None
        if self.defaults["use_global_grad_norm"] and self._grads:
            norms = [torch.linalg.vector_norm(grad.float()) for grad in self._grads.values()]
            self._norm = torch.linalg.vector_norm(torch.stack(norms)).clamp(min=1.0)

    def _step_chunk(self, chunk: Chunk, group: dict[str, Any]) -> None:
        beta1, beta2 = group["betas"]
        param, grad = chunk.param, chunk.grad
        if self._norm is not None:
            grad = grad / self._norm.to(grad.dtype)
        exp_avg, exp_avg_sq = chunk.state("exp_avg"), chunk.state("exp_avg_sq")
        exp_avg.mul_(beta1).add_(grad, alpha=1 - beta1)
        exp_avg_sq.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        update = exp_avg / exp_avg_sq.sqrt().add_(group["eps"])
        if group["weight_decay"]:
            update.add_(param, alpha=group["weight_decay"])
        if not group["adam"]:
            weight_norm = torch.stack(torch._foreach_norm(chunk.per_param(param))).clamp(max=10.0)
            update_norm = torch.stack(torch._foreach_norm(chunk.per_param(update)))
            ratio = torch.where((weight_norm > 0) & (update_norm > 0), weight_norm / update_norm, 1.0)
            update.mul_(chunk.spread(ratio))
        param.add_(update, alpha=-group["lr"])
