"""torch.optim.RMSprop on combined tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .npu_fused_optim_base import NpuFusedOptimizerBase, check, signed_grad, tensor_step

if TYPE_CHECKING:
    from torch.optim.optimizer import ParamsT

    from .chunk import Chunk, Part


class NpuFusedRMSprop(NpuFusedOptimizerBase):
    _stored_step = staticmethod(tensor_step)

    def __init__(
        self,
        params: ParamsT,
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
    ) -> None:
        check("NpuFusedRMSprop", alpha=alpha, eps=eps, weight_decay=weight_decay, momentum=momentum)
        options = {"alpha": alpha, "eps": eps, "weight_decay": weight_decay, "momentum": momentum, "centered": centered}
        super().__init__(params, {"lr": lr, **options})

    def _step_part(self, part: Chunk | Part, group: dict[str, Any]) -> None:
        alpha, lr, param = group["alpha"], float(group["lr"]), part.param
        grad = signed_grad(part, group)
        square_avg = part.state("square_avg")
        square_avg.mul_(alpha).addcmul_(grad, grad, value=1 - alpha)
        if group["centered"]:
            grad_avg = part.state("grad_avg")
            grad_avg.lerp_(grad, 1 - alpha)
            avg = square_avg.addcmul(grad_avg, grad_avg, value=-1).sqrt_().add_(group["eps"])
        else:
            avg = square_avg.sqrt().add_(group["eps"])
        if not group["momentum"]:
            param.addcdiv_(grad, avg, value=-lr)
            return
        buffer = part.state("momentum_buffer")
        buffer.mul_(group["momentum"]).addcdiv_(grad, avg)
        param.add_(buffer, alpha=-lr)
