"""torch.optim.SGD on combined tensors."""

import torch
from torch.optim.optimizer import required

from .npu_fused_optim_base import NpuFusedOptimizerBase, check


class NpuFusedSGD(NpuFusedOptimizerBase):
    def __init__(self, params, lr=required, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False):
        if lr is required:
            raise ValueError("NpuFusedSGD needs a learning rate: NpuFusedSGD(params, lr=0.1)")
        check("NpuFusedSGD", momentum=momentum, weight_decay=weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("NpuFusedSGD: nesterov needs a momentum and no dampening")
        options = {"momentum": momentum, "dampening": dampening, "weight_decay": weight_decay, "nesterov": nesterov}
        super().__init__(params, {"lr": lr, **options})

    def _step_chunk(self, chunk, group):
        first = bool(group["momentum"]) and not chunk.has("momentum_buffer")
        torch._fused_sgd_(
            [chunk.param],
            [chunk.grad],
            [chunk.state("momentum_buffer")] if group["momentum"] else [],
            lr=group["lr"],
            weight_decay=group["weight_decay"],
            momentum=group["momentum"],
            dampening=group["dampening"],
            nesterov=group["nesterov"],
            maximize=False,
            is_first_step=first,
        )
