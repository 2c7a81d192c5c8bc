"""torch.optim.AdamW on combined tensors."""

import torch

from .npu_fused_adam import NpuFusedAdam


class NpuFusedAdamW(NpuFusedAdam):
    _kernel = staticmethod(torch._fused_adamw_)

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2, amsgrad=False):
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad)
