"""The RMSprop of TensorFlow on combined tensors: the averages of squares start at one, eps is under the root.

decoupled_decay: weights are multiplied by 1 - weight_decay, instead of adding the decay to the gradient.
lr_in_momentum: the momentum buffer holds steps that are multiplied by the rate, so a new rate does not change them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .npu_fused_optim_base import NpuFusedOptimizerBase, check

if TYPE_CHECKING:
    from torch.optim.optimizer import ParamsT

    from .npu_fused_optim_base import Chunk


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

    def _step_chunk(self, chunk: Chunk, group: dict[str, Any]) -> None:
        param, grad, decay = chunk.param, chunk.grad, group["weight_decay"]
        if decay and group["decoupled_decay"]:
            param.mul_(1 - decay)
        elif decay:
            grad = grad.add(param, alpha=decay)
        square_avg = chunk.state("square_avg", start=1.0)
        square_avg.lerp_(grad.square(), 1 - group["alpha"])
        variance = square_avg
        if group["centered"]:
            grad_avg = chunk.state("grad_avg")
            grad_avg.lerp_(grad, 1 - group["alpha"])
            variance = square_avg.addcmul(grad_avg, grad_avg, value=-1)
        avg = variance.add(group["eps"]).sqrt_()
        if not group["momentum"]:
            param.addcdiv_(grad, avg, value=-group["lr"])
            return
        buffer = chunk.state("momentum_buffer")
        buffer.mul_(group["momentum"]).addcdiv_(grad, avg, value=group["lr"] if group["lr_in_momentum"] else 1.0)
        param.sub_(buffer, alpha=1.0 if group["lr_in_momentum"] else group["lr"])
