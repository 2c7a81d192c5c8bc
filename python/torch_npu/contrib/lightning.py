"""The accelerator "npu" and the strategy "ddp_npu" of lightning, which has none of its own for npu.

    import torch_npu.contrib.lightning                       # registers both
    Trainer(accelerator="npu", devices=2, strategy="ddp_npu")

The import needs the package lightning or pytorch_lightning.
"""

from __future__ import annotations

import importlib
import re
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel


def _module(name: str) -> Any:
    """A module of lightning.pytorch, or of pytorch_lightning if lightning is not installed."""
    try:
        return importlib.import_module(f"lightning.pytorch.{name}")
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("lightning"):
            raise
        return importlib.import_module(f"pytorch_lightning.{name}")


_accelerators: Any = _module("accelerators")
_strategies: Any = _module("strategies")
_Accelerator: Any = _accelerators.Accelerator
_DDPStrategy: Any = _strategies.DDPStrategy


def _device_numbers(devices: Any, count: int) -> list[Any]:
    """The device numbers that `devices` selects, without a check of their range; empty if `devices` has a wrong form."""
    if isinstance(devices, str):
        words = ["-1"] if devices.strip() == "auto" else [word.strip() for word in devices.split(",")]
        if not all(re.fullmatch(r"-?[0-9]+", word) for word in words if word):
            return []
        numbers = [int(word) for word in words if word]
        devices = numbers[0] if len(words) == 1 and numbers else numbers
    if isinstance(devices, bool) or not isinstance(devices, (int, list, tuple, range)):
        return []
    if not isinstance(devices, int):
        return list(devices)
    return list(range(count if devices == -1 else min(devices, count + 1)))


class NPUAccelerator(_Accelerator):
    """Trains on npu devices."""

    def setup_device(self, device: torch.device) -> None:
        if device.type != "npu":
            raise ValueError(f"the accelerator npu trains on npu devices, not on {device}")
        torch.npu.set_device(device)

    def teardown(self) -> None:
        torch.npu.empty_cache()

    def get_device_stats(self, device: torch.device) -> dict[str, Any]:
        return torch.npu.memory_stats(device)

    @staticmethod
    def parse_devices(devices: Any) -> list[int]:
        """The device numbers for Trainer(devices=...). `devices` is a number of devices, -1 or "auto" for all, a text "0,2", or a
        list of numbers."""
        count = torch.npu.device_count()
        chosen = _device_numbers(devices, count)
        if not chosen or len(set(chosen)) != len(chosen) or not all(number in range(count) for number in chosen):
            raise ValueError(
                f"devices={devices!r} must be a number of devices, or name different devices from 0 to {count - 1}; "
                '-1 and "auto" mean all'
            )
        return chosen

    @staticmethod
    def get_parallel_devices(devices: list[int]) -> list[torch.device]:
        return [torch.device("npu", number) for number in devices]

    @staticmethod
    def auto_device_count() -> int:
        return torch.npu.device_count()

    @staticmethod
    def is_available() -> bool:
        return torch.npu.is_available()

    @staticmethod
    def name() -> str:
        return "npu"


class NPUDDPStrategy(_DDPStrategy):
    """DistributedDataParallel over hccl."""

    def __init__(self, *args: Any, process_group_backend: str = "hccl", **kwargs: Any) -> None:
        super().__init__(*args, process_group_backend=process_group_backend, **kwargs)

    def _setup_model(self, model: torch.nn.Module) -> DistributedDataParallel:
        """Wraps the model. The method of the base class would make a CUDA stream."""
        return DistributedDataParallel(model, device_ids=self.determine_ddp_device_ids(), **self._ddp_kwargs)


if "npu" not in _accelerators.AcceleratorRegistry:
    _accelerators.AcceleratorRegistry.register("npu", NPUAccelerator, description="Ascend NPUs")
if "ddp_npu" not in _strategies.StrategyRegistry:
    _strategies.StrategyRegistry.register("ddp_npu", NPUDDPStrategy, description="DistributedDataParallel over hccl")
