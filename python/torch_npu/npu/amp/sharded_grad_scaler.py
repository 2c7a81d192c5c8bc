"""The GradScaler of FSDP, for npu."""

from __future__ import annotations

from typing import Any

from torch.distributed.fsdp import sharded_grad_scaler


class ShardedGradScaler(sharded_grad_scaler.ShardedGradScaler):
    """torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler("npu", ...)."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("npu", *args, **kwargs)
