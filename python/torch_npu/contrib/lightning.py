"""The accelerator "npu" and the strategy "ddp_npu" of lightning, which has none of its own for npu.

    import torch_npu.contrib.lightning                       # registers both
    Trainer(accelerator="npu", devices=2, strategy="ddp_npu")

The import needs the package lightning or pytorch_lightning.
"""

from __future__ import annotations

import importlib
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
        """Device numbers of Trainer(devices=...): a number of devices, -1 or "auto" for all, "0,2", or a list of numbers."""
        count = torch.npu.device_count()
        if isinstance(devices, str):
            text = devices.strip()
            if text == "auto":
                devices = -1
            elif "," in text:
                devices = [int(part) for part in text.split(",") if part.strip()]
            else:
                devices = int(text)
        chosen = list(range(count if devices == -1 else devices)) if isinstance(devices, int) else list(devices)
        wrong = [number for number in chosen if not 0 <= number < count]
        if wrong or not chosen or len(set(chosen)) != len(chosen):
            raise ValueError(f"devices={devices!r} must name different devices from 0 to {count - 1}")
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
        """As the base class does, which makes a stream of CUDA for every device but the CPU."""
        return DistributedDataParallel(model, device_ids=self.determine_ddp_device_ids(), **self._ddp_kwargs)


if "npu" not in _accelerators.AcceleratorRegistry:
    _accelerators.AcceleratorRegistry.register("npu", NPUAccelerator, description="Ascend NPUs")
if "ddp_npu" not in _strategies.StrategyRegistry:
    _strategies.StrategyRegistry.register("ddp_npu", NPUDDPStrategy, description="DistributedDataParallel over hccl")
