"""The rank of this process and its process groups."""

from __future__ import annotations

import os
import sys
from typing import Any


def rank() -> int:
    """The rank in the default process group; without a group, the rank that the launcher has set."""
    distributed = _initialised_distributed()
    if distributed is not None:
        return int(distributed.get_rank())
    word = os.environ.get("RANK", "0")
    return int(word) if word.isdigit() else 0


def process_groups() -> dict[str, Any]:
    """The groups of this rank: {"parallel_group_info": {name: {"group_name", "group_rank", "global_ranks"}}}, or {}."""
    distributed = _initialised_distributed()
    if distributed is None:
        return {}
    groups = {}
    for group in distributed.distributed_c10d._world.pg_map:
        name, ranks = group.group_name, distributed.get_process_group_ranks(group)
        groups[name] = {"group_name": group.group_desc, "group_rank": distributed.get_rank(group), "global_ranks": ranks}
    return {"parallel_group_info": groups}


def _initialised_distributed() -> Any:
    distributed = sys.modules.get("torch.distributed")
    return distributed if distributed and distributed.is_available() and distributed.is_initialized() else None
