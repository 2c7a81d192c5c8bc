"""Collectives of npu tensors."""

from __future__ import annotations

from typing import Any

import torch
from torch.distributed import ReduceOp

from .._api_status import not_offered

NO_HCCL = 'HCCL is not implemented yet; use init_process_group("gloo") with tensors on the CPU'


def is_hccl_available() -> bool:
    """Whether init_process_group("hccl") works: not yet."""
    return False


@not_offered(NO_HCCL)
def reinit_process_group(group: Any = None, rebuild_link: bool = True) -> None: ...


@not_offered(NO_HCCL)
def all_gather_into_tensor_uneven(
    output: torch.Tensor,
    input: torch.Tensor,
    output_split_sizes: list[int] | None = None,
    group: Any = None,
    async_op: bool = False,
) -> Any: ...


@not_offered(NO_HCCL)
def reduce_scatter_tensor_uneven(
    output: torch.Tensor,
    input: torch.Tensor,
    input_split_sizes: list[int] | None = None,
    op: Any = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
) -> Any: ...
