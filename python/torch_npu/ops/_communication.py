"""Differentiable collectives, on the communicator with a name that get_hccl_comm_name() has returned.

    group = group_of("npu_mm_all_reduce_base", hcom, world_size)
    total = AllReduce.apply(x, group)

The gradient belongs to the sum of the losses of all ranks, as in torch.distributed.nn.
"""

import torch
from torch import distributed as dist

from .._process_groups import group_named
from ._define import check, refuse


def group_of(operator, hcom, world_size=None):
    """The process group of the communicator. Raises ValueError if there is none, or if it has another number of ranks."""
    group = group_named(hcom)
    advice = "get the name from group._get_backend(torch.device('npu')).get_hccl_comm_name(rank)"
    check(group is not None, operator, f"no process group of this process has the communicator {hcom!r}; {advice}")
    size = dist.get_world_size(group)
    check(world_size in (None, size), operator, f"the world size is {world_size}, but the communicator has {size} ranks")
    return group


def refuse_options(operator, options, *ignored):
    """Raises NotImplementedError if one of the options is set and not ignored."""
    wanted = {key: value for key, value in options.items() if key not in ignored}
    refuse(operator, **{key: value if torch.is_tensor(value) or value else None for key, value in wanted.items()})


class AllReduce(torch.autograd.Function):
    """The sum of x over the ranks."""

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        out = x.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(out, group=group)
        return out

    @staticmethod
    def backward(ctx, grad):
        return AllReduce.apply(grad, ctx.group), None


class Gather(torch.autograd.Function):
    """The rows of all ranks, in the order of the ranks."""

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        out = x.new_empty(x.size(0) * dist.get_world_size(group), *x.shape[1:])
        dist.all_gather_into_tensor(out, x.contiguous(), group=group)
        return out

    @staticmethod
    def backward(ctx, grad):
        return ReduceScatter.apply(grad, ctx.group), None


class ReduceScatter(torch.autograd.Function):
    """This rank's part of the sum of x over the ranks. Each rank gets an equal part of the rows."""

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        out = x.new_empty(x.size(0) // dist.get_world_size(group), *x.shape[1:])
        dist.reduce_scatter_tensor(out, x.contiguous(), group=group)
        return out

    @staticmethod
    def backward(ctx, grad):
        return Gather.apply(grad, ctx.group), None


class Exchange(torch.autograd.Function):
    """Sends sent[r] rows of x to rank r and returns the rows from all ranks: received[r] from rank r."""

    @staticmethod
    def forward(ctx, x, group, sent, received):
        ctx.group, ctx.sent, ctx.received = group, sent, received
        out = x.new_empty(sum(received), *x.shape[1:])
        dist.all_to_all_single(out, x.contiguous(), received, sent, group=group)
        return out

    @staticmethod
    def backward(ctx, grad):
        return Exchange.apply(grad, ctx.group, ctx.received, ctx.sent), None, None, None


def exchange_equal(x, group):
    """Sends an equal part of the rows of x to each rank, and returns the rows from all ranks."""
    world = dist.get_world_size(group)
    parts = [x.size(0) // world] * world
    return Exchange.apply(x, group, parts, parts)


def blocks_in_order(counts, by_columns):
    """Row numbers that reorder a table of blocks of rows. Block (i, j) has counts[i][j] rows. With by_columns, blocks that are
    stored line by line are read column by column. Without it, blocks that are stored column by column are read line by line."""
    lines, columns = len(counts), len(counts[0])
    stored = [(i, j) for i in range(lines) for j in range(columns)]
    wanted = [(i, j) for j in range(columns) for i in range(lines)]
    if not by_columns:
        stored, wanted = wanted, stored
    starts, end = {}, 0
    for i, j in stored:
        starts[i, j] = end
        end += counts[i][j]
    return [row for i, j in wanted for row in range(starts[i, j], starts[i, j] + counts[i][j])]


def select_rows(x, rows):
    return x.index_select(0, torch.tensor(rows, dtype=torch.int64, device=x.device))


def check_modes(operator, options, **allowed):
    """Removes the quantisation modes from the options. Raises ValueError if a mode has another value than the allowed one."""
    for key, mode in allowed.items():
        given = options.pop(key, None)
        check(given in (None, mode), operator, f"{key} must be {mode}, not {given}")
