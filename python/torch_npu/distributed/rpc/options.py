"""Options of remote procedure calls: the mapping of devices between processes.

    options = NPUTensorPipeRpcBackendOptions(device_maps={"worker1": {"npu:0": "npu:1"}}, devices=["npu:0"])
    torch.distributed.rpc.init_rpc("worker0", rank=0, world_size=2, rpc_backend_options=options)

Calls transfer tensors on the CPU. Tensors on npu need a channel between devices, which is not implemented yet.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch.distributed.rpc import TensorPipeRpcBackendOptions, constants

__all__ = ["NPUTensorPipeRpcBackendOptions"]


class NPUTensorPipeRpcBackendOptions(TensorPipeRpcBackendOptions):
    def __init__(
        self,
        *,
        num_worker_threads: int = constants.DEFAULT_NUM_WORKER_THREADS,
        rpc_timeout: float = constants.DEFAULT_RPC_TIMEOUT_SEC,
        init_method: str = constants.DEFAULT_INIT_METHOD,
        device_maps: dict[str, dict[Any, Any]] | None = None,
        devices: Iterable[Any] | None = None,
        _transports: list[str] | None = None,
        _channels: list[str] | None = None,
    ) -> None:
        super().__init__(
            num_worker_threads=num_worker_threads,
            rpc_timeout=rpc_timeout,
            init_method=init_method,
            _transports=_transports,
            _channels=_channels,
        )
        for to, device_map in (device_maps or {}).items():
            self.set_device_map(to, device_map)
        if devices is not None:
            self.set_devices(devices)

    def set_device_map(self, to: str, device_map: dict[Any, Any]) -> None:
        """Maps devices of this process to devices of the worker `to`, one to one, in addition to earlier mappings."""
        known = dict(self.device_maps.get(to, {}))
        for mine, other in ((torch.device(mine), torch.device(other)) for mine, other in device_map.items()):
            taken = [device for device, target in known.items() if target == other and device != mine]
            if taken or known.get(mine, other) != other:
                was = f"{taken[0]} to {other}" if taken else f"{mine} to {known[mine]}"
                raise ValueError(f"set_device_map: maps are one to one, but {mine} to {other} comes after {was}")
            known[mine] = other
        self._set_device_map(to, known)

    def set_devices(self, devices: Iterable[Any]) -> None:
        """The npu devices of this process that calls may use."""
        found = [torch.device(device) for device in devices]
        for device in found:
            if device.type != "npu":
                raise ValueError(f"set_devices takes devices of npu, not {device}")
        self.devices = found
