"""RMSprop as TensorFlow has it, on combined tensors: averages of squares begin at one, eps is under the root.

decoupled_decay: weights decay by weight_decay times themselves, instead of through the gradient.
lr_in_momentum: the buffer holds steps that the rate is already in, so that a new rate does not change what is in motion.
"""

from .npu_fused_optim_base import NpuFusedOptimizerBase, check


class NpuFusedRMSpropTF(NpuFusedOptimizerBase):
    def __init__(
        self,
        params,
        lr=1e-2,
        alpha=0.9,
        eps=1e-10,
        weight_decay=0,
        momentum=0.0,
        centered=False,
        decoupled_decay=False,
        lr_in_momentum=True,
    ):
        check("NpuFusedRMSpropTF", alpha=alpha, eps=eps, weight_decay=weight_decay, momentum=momentum)
        options = {"alpha": alpha, "eps": eps, "weight_decay": weight_decay, "momentum": momentum, "centered": centered}
        super().__init__(params, {"lr": lr, **options, "decoupled_decay": decoupled_decay, "lr_in_momentum": lr_in_momentum})

    def _step_chunk(self, chunk, group):
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
