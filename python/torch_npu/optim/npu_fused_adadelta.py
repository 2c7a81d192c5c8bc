"""torch.optim.Adadelta on combined tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .npu_fused_optim_base import NpuFusedOptimizerBase, check, signed_grad, tensor_step

if TYPE_CHECKING:
    from torch.optim.optimizer import ParamsT

    from .chunk import Chunk, Part


class NpuFusedAdadelta(NpuFusedOptimizerBase):
    _stored_step = staticmethod(tensor_step)

    def __init__(self, params: ParamsT, lr: float = 1.0, rho: float = 0.9, eps: float = 1e-6, weight_decay: float = 0) -> None:
        check("NpuFusedAdadelta", rho=rho, eps=eps, weight_decay=weight_decay)
        if rho > 1:
            raise ValueError(f"NpuFusedAdadelta: rho must be at most 1, not {rho!r}")
        super().__init__(params, {"lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay})

    def _step_part(self, part: Chunk | Part, group: dict[str, Any]) -> None:
        rho, eps = group["rho"], group["eps"]
        grad = signed_grad(part, group)
        square_avg, acc_delta = part.state("square_avg"), part.state("acc_delta")
        square_avg.mul_(rho).addcmul_(grad, grad, value=1 - rho)
        delta = acc_delta.add(eps).sqrt_().div_(square_avg.add(eps).sqrt_()).mul_(grad)
        acc_delta.mul_(rho).addcmul_(delta, delta, value=1 - rho)
        part.param.add_(delta, alpha=-float(group["lr"]))
