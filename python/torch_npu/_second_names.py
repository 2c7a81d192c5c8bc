"""Modules of torch_npu.npu under their second name: `import torch.npu.amp` gives torch_npu.npu.amp. Without this Python would run
the file again, as another module."""

import importlib.abc
import importlib.machinery
import importlib.util
import sys


def register():
    """For the modules that are loaded, and for those that will be."""
    for name in [name for name in sys.modules if name.startswith("torch_npu.npu.")]:
        sys.modules[_second(name)] = sys.modules[name]
    sys.meta_path.insert(0, _Finder())


def _second(name):
    return name.replace("torch_npu", "torch", 1)


def _first(name):
    return name.replace("torch", "torch_npu", 1)


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        if not name.startswith("torch.npu.") or importlib.util.find_spec(_first(name)) is None:
            return None
        return importlib.machinery.ModuleSpec(name, self)

    def create_module(self, spec):
        module = importlib.import_module(_first(spec.name))
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module):
        module.__spec__ = module.__spec__.loader_state  # Python has put the second one in its place
