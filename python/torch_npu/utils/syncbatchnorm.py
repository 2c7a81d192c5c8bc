"""Batch normalisation over the batches of all processes of a group: the autograd function of a SyncBatchNorm module.

    out = SyncBatchNorm.apply(x, weight, bias, running_mean, running_var, eps, momentum, process_group, world_size)

With world_size 1 no process group is needed. A gloo group accepts only CPU tensors, so the statistics (two numbers per channel)
are copied to the CPU for it.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist


class SyncBatchNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        self: Any,
        input_tensor: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor,
        running_mean: torch.Tensor,
        running_var: torch.Tensor,
        eps: float,
        momentum: float,
        process_group: Any,
        world_size: int,
    ) -> torch.Tensor:
        if world_size > 1 and not (dist.is_available() and dist.is_initialized()):
            raise RuntimeError(
                f"SyncBatchNorm for {world_size} processes needs torch.distributed.init_process_group first, or world_size=1"
            )
        input_tensor = input_tensor.contiguous()
        channels = input_tensor.shape[1]
        size = input_tensor.numel() // max(channels, 1)
        if size * world_size < 2 or not size:
            raise ValueError(
                f"SyncBatchNorm needs more than one value per channel to train, got the shape {tuple(input_tensor.shape)}"
            )
        mean, invstd = torch.batch_norm_stats(input_tensor, eps)
        count = torch.full((1,), float(size), dtype=mean.dtype, device=mean.device)
        gathered = _gather(torch.cat([mean, invstd, count]), process_group, world_size)
        means, invstds, counts = gathered.split([channels, channels, 1], dim=1)
        counts = counts.reshape(-1)
        mean, invstd = torch.batch_norm_gather_stats_with_counts(
            input_tensor, means.contiguous(), invstds.contiguous(), running_mean, running_var, momentum, eps, counts.contiguous()
        )
        self.save_for_backward(input_tensor, weight, mean, invstd, counts.to(torch.int32))
        self.process_group, self.world_size = process_group, world_size
        return torch.batch_norm_elemt(input_tensor, weight, bias, mean, invstd, eps)

    @staticmethod
    def backward(self: Any, grad_output: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        input_tensor, weight, mean, invstd, counts = self.saved_tensors
        needs_input, needs_weight, needs_bias = self.needs_input_grad[:3]
        grad_output = grad_output.contiguous()
        sum_dy, sum_dy_xmu, grad_weight, grad_bias = torch.batch_norm_backward_reduce(
            grad_output, input_tensor, mean, invstd, weight, needs_input, needs_weight, needs_bias
        )
        grad_input = None
        if needs_input:
            sums = _gather(torch.cat([sum_dy, sum_dy_xmu]), self.process_group, self.world_size).sum(dim=0)
            sum_dy, sum_dy_xmu = sums.chunk(2)
            grad_input = torch.batch_norm_backward_elemt(
                grad_output, input_tensor, mean, invstd, weight, sum_dy, sum_dy_xmu, counts
            )
        return grad_input, grad_weight if needs_weight else None, grad_bias if needs_bias else None, *[None] * 6


def _gather(values: torch.Tensor, group: Any, world_size: int) -> torch.Tensor:
    """The values of every process, as rows."""
    if world_size == 1:
        return values.unsqueeze(0)
    sent = values.cpu() if dist.get_backend(group) == "gloo" else values
    rows = [torch.empty_like(sent) for _ in range(world_size)]
    dist.all_gather(rows, sent, group)
    return torch.stack(rows).to(values.device)
