"""torch.optim.Adam on combined tensors."""

import torch

from .npu_fused_optim_base import NpuFusedOptimizerBase, check


class NpuFusedAdam(NpuFusedOptimizerBase):
    _kernel = staticmethod(torch._fused_adam_)

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, amsgrad=False):
        check(type(self).__name__, betas=betas, eps=eps, weight_decay=weight_decay)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad})

    def _step_chunk(self, chunk, group):
        self._kernel(
            [chunk.param],
            [chunk.grad],
            [chunk.state("exp_avg")],
            [chunk.state("exp_avg_sq")],
            [chunk.state("max_exp_avg_sq")] if group["amsgrad"] else [],
            [chunk.step_tensor()],
            lr=group["lr"],
            beta1=group["betas"][0],
            beta2=group["betas"][1],
            weight_decay=group["weight_decay"],
            eps=group["eps"],
            amsgrad=group["amsgrad"],
            maximize=False,
        )
