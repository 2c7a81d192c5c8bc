"""Aliases of modules: `import torch.npu.amp` gives the module torch_npu.npu.amp, and `import torch.contrib.npu.optimized_lib`
gives torch_npu.contrib.optimized_lib. Without them Python would run the file of torch.npu.amp again, as another module."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

# Beginnings of names, the longest first.
_LIBRARY = "torch.contrib.npu.optimized_lib"
_ORIGINALS = {
    "torch.npu": "torch_npu.npu",
    f"{_LIBRARY}.function": "torch_npu.contrib.function",
    f"{_LIBRARY}.module": "torch_npu.contrib.module",
    "torch.contrib.npu": "torch_npu.contrib",
}


def register() -> None:
    """Aliases the modules that are loaded, and those that are loaded later."""
    for name in [name for name in sys.modules if name.startswith("torch_npu.npu.")]:
        sys.modules[name.replace("torch_npu", "torch", 1)] = sys.modules[name]
    sys.meta_path.insert(0, _Finder())


def _original(name: str) -> str | None:
    """The name of the module that an alias means; None for other names."""
    for alias, original in _ORIGINALS.items():
        if name == alias or name.startswith(f"{alias}."):
            return original + name.removeprefix(alias)
    return None


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        original = _original(name)
        if original is None or importlib.util.find_spec(original) is None:
            return None
        return importlib.machinery.ModuleSpec(name, self, origin=original)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(spec.origin or "")
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = module.__spec__.loader_state  # type: ignore[union-attr]  # importlib has set the spec of the alias
