"""torch_npu.contrib.lightning registers itself with lightning. A fake lightning package provides the classes that it uses."""

import sys
import types

import pytest
import torch


class Registry(dict):
    def register(self, name, kind, description=""):
        self[name] = (kind, description)


@pytest.fixture(params=["lightning.pytorch", "pytorch_lightning"])
def lightning(request, monkeypatch):
    """Imports torch_npu.contrib.lightning with a fake of one of the two packages."""
    import importlib

    accelerators, strategies = types.ModuleType("accelerators"), types.ModuleType("strategies")
    accelerators.Accelerator, accelerators.AcceleratorRegistry = object, Registry()
    strategies.DDPStrategy, strategies.StrategyRegistry = object, Registry()
    for name in ("lightning", "pytorch_lightning"):
        monkeypatch.setitem(sys.modules, name, None)
    parts = request.param.split(".")
    for depth in range(1, len(parts) + 1):
        monkeypatch.setitem(sys.modules, ".".join(parts[:depth]), types.ModuleType(parts[depth - 1]))
    monkeypatch.setitem(sys.modules, f"{request.param}.accelerators", accelerators)
    monkeypatch.setitem(sys.modules, f"{request.param}.strategies", strategies)
    monkeypatch.delitem(sys.modules, "torch_npu.contrib.lightning", raising=False)
    module = importlib.import_module("torch_npu.contrib.lightning")
    yield module, accelerators.AcceleratorRegistry, strategies.StrategyRegistry
    del sys.modules["torch_npu.contrib.lightning"]


def test_the_import_registers_accelerator_and_strategy(lightning):
    module, accelerators, strategies = lightning
    assert accelerators["npu"][0] is module.NPUAccelerator
    assert strategies["ddp_npu"][0] is module.NPUDDPStrategy
    assert module.NPUAccelerator.is_available() and module.NPUAccelerator.name() == "npu"


def test_devices_of_a_trainer(lightning):
    accelerator, count = lightning[0].NPUAccelerator, torch.npu.device_count()
    every = list(range(count))
    for given, expected in ((2, [0, 1]), ("2", [0, 1]), (-1, every), ("auto", every), ("0, 2,", [0, 2]), ([1], [1])):
        assert accelerator.parse_devices(given) == expected
    assert accelerator.get_parallel_devices([1]) == [torch.device("npu", 1)]
    for wrong in (0, -2, count + 1, "two", "0,x", [0, 0], [count], [-1], [], "", True, 1.5, None):
        with pytest.raises(ValueError, match="must be a number of devices, or name different devices from 0 to"):
            accelerator.parse_devices(wrong)
    with pytest.raises(ValueError, match="trains on npu devices, not on cpu"):
        accelerator().setup_device(torch.device("cpu"))
