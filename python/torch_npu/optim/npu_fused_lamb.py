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

    from .chunk import Chunk, Part


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
        if self.defaults["use_global_grad_norm"]:
            norms = [torch.linalg.vector_norm(flat.grad.float()) for flat in self._flats.values()]
            self._norm = torch.linalg.vector_norm(torch.stack(norms)).clamp(min=1.0)

    def _step_chunk(self, chunk: Chunk, group: dict[str, Any]) -> None:
        for part in chunk.parts():
            self._update(part, group)
        update = chunk.buffer("update")
        if not group["adam"]:
            update.mul_(chunk.spread(_ratios(chunk)))
        chunk.param.add_(update, alpha=-float(group["lr"]))

    def _update(self, part: Chunk | Part, group: dict[str, Any]) -> None:
        """Writes the step of Adam, without the rate, to the buffer."""
        beta1, beta2 = group["betas"]
        grad = part.grad if self._norm is None else part.grad / self._norm.to(part.grad.dtype)
        exp_avg, exp_avg_sq = part.state("exp_avg"), part.state("exp_avg_sq")
        exp_avg.mul_(beta1).add_(grad, alpha=1 - beta1)
        exp_avg_sq.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        update = torch.div(exp_avg, exp_avg_sq.sqrt().add_(group["eps"]), out=part.buffer("update"))
        if group["weight_decay"]:
            update.add_(part.param, alpha=group["weight_decay"])


def _ratios(chunk: Chunk) -> torch.Tensor:
    """The norm of each parameter divided by that of its step; one if either is zero."""
    weight_norm = torch.stack(torch._foreach_norm(chunk.params)).clamp(max=10.0)
    update_norm = torch.stack(torch._foreach_norm(chunk.buffer_views("update")))
    return torch.where((weight_norm > 0) & (update_norm > 0), weight_norm / update_norm, 1.0)
