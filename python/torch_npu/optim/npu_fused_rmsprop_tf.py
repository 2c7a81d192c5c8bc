"""The RMSprop of TensorFlow on combined tensors: the averages of squares start at one, eps is under the root.

decoupled_decay: weights are multiplied by 1 - weight_decay, instead of adding the decay to the gradient.
lr_in_momentum: the momentum buffer holds steps that are multiplied by the rate, so a new rate does not change them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .npu_fused_optim_base import NpuFusedOptimizerBase, check

if TYPE_CHECKING:
    from torch.optim.optimizer import ParamsT

    from .chunk import Chunk, Part


class NpuFusedRMSpropTF(NpuFusedOptimizerBase):
    def __init__(
        self,
        params: ParamsT,
        lr: float = 1e-2,
        alpha: float = 0.9,
        eps: float = 1e-10,
        weight_decay: float = 0,
        momentum: float = 0.0,
        centered: bool = False,
        decoupled_decay: bool = False,
        lr_in_momentum: bool = True,
    ) -> None:
        check("NpuFusedRMSpropTF", alpha=alpha, eps=eps, weight_decay=weight_decay, momentum=momentum)
        options = {"alpha": alpha, "eps": eps, "weight_decay": weight_decay, "momentum": momentum, "centered": centered}
        super().__init__(params, {"lr": lr, **options, "decoupled_decay": decoupled_decay, "lr_in_momentum": lr_in_momentum})

    def _step_part(self, part: Chunk | Part, group: dict[str, Any]) -> None:
        param, grad, decay, lr = part.param, part.grad, group["weight_decay"], float(group["lr"])
        if decay and group["decoupled_decay"]:
            param.mul_(1 - decay)
        elif decay:
            grad = grad.add(param, alpha=decay)
        square_avg = part.state("square_avg", start=1.0)
        square_avg.lerp_(grad.square(), 1 - group["alpha"])
        variance = square_avg
        if group["centered"]:
            grad_avg = part.state("grad_avg")
            grad_avg.lerp_(grad, 1 - group["alpha"])
            variance = square_avg.addcmul(grad_avg, grad_avg, value=-1)
        avg = variance.add(group["eps"]).sqrt_()
        if not group["momentum"]:
            param.addcdiv_(grad, avg, value=-lr)
            return
        buffer = part.state("momentum_buffer")
        buffer.mul_(group["momentum"]).addcdiv_(grad, avg, value=lr if group["lr_in_momentum"] else 1.0)
        param.sub_(buffer, alpha=1.0 if group["lr_in_momentum"] else lr)
