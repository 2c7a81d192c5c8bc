"""Batch norm over the batches of all ranks: torch.nn.SyncBatchNorm with the options of apex."""

from __future__ import annotations

from typing import Any

import torch


class SyncBatchNorm(torch.nn.SyncBatchNorm):
    """torch.nn.SyncBatchNorm. channel_last: the channels are the last dimension. fuse_relu: a ReLU follows."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        channel_last: bool = False,
        fuse_relu: bool = False,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, process_group)
        self.channel_last, self.fuse_relu = channel_last, fuse_relu

    def forward(self, input: torch.Tensor, z: torch.Tensor | None = None) -> torch.Tensor:
        """z: added to the result, before the ReLU."""
        if self.channel_last:
            input = input.movedim(-1, 1)
        result = super().forward(input)
        if self.channel_last:
            result = result.movedim(1, -1)
        if z is not None:
            result = result + z
        return torch.relu(result) if self.fuse_relu else result


def convert_syncbn_model(module: torch.nn.Module, process_group: Any = None, channel_last: bool = False) -> torch.nn.Module:
    """Replaces every batch norm of the module by SyncBatchNorm, with its weights and statistics."""
    if isinstance(module, torch.nn.modules.instancenorm._InstanceNorm):
        return module
    if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
        options = (module.eps, module.momentum, module.affine, module.track_running_stats)
        made = SyncBatchNorm(module.num_features, *options, process_group, channel_last)
        made._parameters, made._buffers = module._parameters, module._buffers
        return made.train(module.training)
    for name, child in module.named_children():
        setattr(module, name, convert_syncbn_model(child, process_group, channel_last))
    return module


def create_syncbn_process_group(group_size: int) -> Any:
    """The process group of this rank if the ranks are divided in groups of this size; None for one group of all. 0: all."""
    world = torch.distributed.get_world_size()
    if group_size == 0 or group_size == world:
        return None
    if group_size < 0 or group_size > world or world % group_size:
        raise ValueError(f"group_size must divide the number of ranks {world}, but it is {group_size}")
    mine = None
    for first in range(0, world, group_size):
        group = torch.distributed.new_group(list(range(first, first + group_size)))
        if first <= torch.distributed.get_rank() < first + group_size:
            mine = group
    return mine
