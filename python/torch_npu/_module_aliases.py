"""Aliases of modules: `import torch.npu.amp` gives the module torch_npu.npu.amp. Without them Python would run the file a second
time, as another module."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType


def register() -> None:
    """Aliases the modules that are loaded, and those that are loaded later."""
    for name in [name for name in sys.modules if name.startswith("torch_npu.npu.")]:
        sys.modules[_alias(name)] = sys.modules[name]
    sys.meta_path.insert(0, _Finder())


def _alias(name: str) -> str:
    return name.replace("torch_npu", "torch", 1)


def _original(name: str) -> str:
    return name.replace("torch", "torch_npu", 1)


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if not name.startswith("torch.npu.") or importlib.util.find_spec(_original(name)) is None:
            return None
        return importlib.machinery.ModuleSpec(name, self)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(_original(spec.name))
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = module.__spec__.loader_state  # type: ignore[union-attr]  # importlib has set the spec of the alias
