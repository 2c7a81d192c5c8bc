"""Collectives of npu tensors that torch.distributed does not have."""

from __future__ import annotations

from typing import Any

import torch
from torch.distributed import ReduceOp

from .. import _C, _process_groups

ProcessGroupHCCL = _C._distributed_c10d.ProcessGroupHCCL


def is_hccl_available() -> bool:
    """Whether init_process_group("hccl") works: the device library has a collective library beside it."""
    return torch.distributed.is_available() and _C._distributed_c10d._has_hccl()


def reinit_process_group(group: Any = None, rebuild_link: bool = True) -> None:
    """Makes a group usable again after a failure. Every rank of the group must call it.

    With rebuild_link, communicators are destroyed, and the next collective makes new ones. Without it, a group that has failed
    is an error."""
    _hccl(group, "reinit_process_group")._reinit(rebuild_link)


def all_gather_into_tensor_uneven(
    output: torch.Tensor,
    input: torch.Tensor,
    output_split_sizes: list[int] | None = None,
    group: Any = None,
    async_op: bool = False,
) -> Any:
    """Gathers the inputs of all ranks into dimension 0 of output. The input of rank r has the size output_split_sizes[r] in
    dimension 0; without sizes, all are equal. Returns the work if async_op is true."""
    backend = _hccl(group, "all_gather_into_tensor_uneven")
    return _finish(backend.all_gather_uneven(output, input, output_split_sizes or [], async_op), async_op)


def reduce_scatter_tensor_uneven(
    output: torch.Tensor,
    input: torch.Tensor,
    input_split_sizes: list[int] | None = None,
    op: Any = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
) -> Any:
    """Reduces the inputs of all ranks, and gives rank r the part of dimension 0 that has the size input_split_sizes[r]; without
    sizes, all are equal. Returns the work if async_op is true."""
    backend = _hccl(group, "reduce_scatter_tensor_uneven")
    op = op if isinstance(op, ReduceOp) else ReduceOp(op)
    return _finish(backend.reduce_scatter_uneven(output, input, input_split_sizes or [], op, async_op), async_op)


def _hccl(group: Any, what: str) -> Any:
    backend = _process_groups.backend_of(group)
    if backend is None:
        raise ValueError(
            f'{what}: the group has no backend hccl; make it with init_process_group("hccl") or new_group(backend="hccl")'
        )
    return backend


def _finish(work: Any, async_op: bool) -> Any:
    if async_op:
        return work
    work.wait()
    return None
