"""Public names: those of the real package import with their signature, those of torch.cuda are here or refused for a reason."""

import importlib
import pkgutil

import pytest
import torch
import torch.cuda
import yaml
from torch_npu import _offer

from tests import api

NPU = {name: signature for name, signature in api.public().items() if name.startswith("torch_npu.npu.")}
MEMORY = {name for name in NPU if name.startswith("torch_npu.npu.memory.")}
MEMORY |= {name for name in NPU if name.replace("torch_npu.npu.", "torch_npu.npu.memory.") in MEMORY}


@pytest.mark.parametrize("name", sorted(NPU.keys() - MEMORY))
def test_a_public_name_has_its_signature(name):
    assert api.difference(name, NPU[name]) is None


@pytest.mark.parametrize("name", sorted(NPU.keys() - MEMORY))
def test_what_does_not_work_says_why(name):
    state, reason = _offer.state(api.resolve(name))
    assert state in ("works", "no-op", "not offered")
    assert bool(reason) == (state != "works")


def cuda_modules():
    """torch.cuda and its public submodules that say what is public, by name; "" is torch.cuda itself."""
    modules = {"": torch.cuda}
    for info in pkgutil.iter_modules(torch.cuda.__path__):
        module = None if info.name.startswith("_") else importlib.import_module(f"torch.cuda.{info.name}")
        if module and getattr(module, "__all__", None):
            modules[info.name] = module
    return modules


def lacking():
    """Public names of torch.cuda that torch.npu lacks and the real package too."""
    names = {f"{prefix}.{name}".lstrip(".") for prefix, module in cuda_modules().items() for name in module.__all__}
    return {name for name in names if not has(name) and f"torch_npu.npu.{name}" not in api.public()}


def has(name):
    found = torch.npu
    for part in name.split("."):
        if not hasattr(found, part):
            return False
        found = getattr(found, part)
    return True


REASONS = yaml.safe_load((api.FOLDER / "cuda.yaml").read_text())


def test_every_name_of_torch_cuda_is_here_or_refused_for_a_reason():
    parts = {name: set(name.split(".")) for name in lacking()}
    assert {name for name in parts if not parts[name] & REASONS.keys()} == set()
    assert REASONS.keys() - set().union(*parts.values()) == set()


def test_a_reason_is_a_sentence():
    assert all(isinstance(reason, str) and reason.endswith(".") and " " in reason for reason in REASONS.values())
