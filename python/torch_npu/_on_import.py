"""Runs a function right after a module is imported, or now if it is.

    on_import("torch._dynamo", lambda: importlib.import_module("torch_npu._dynamo"))

So what few programs use is not imported before anybody asks for it. within() gives a context manager, in which the module and the
function run.
"""

import contextlib
import importlib.abc
import importlib.machinery
import sys


def on_import(name, function, within=contextlib.nullcontext):
    if name in sys.modules:
        function()
    else:
        sys.meta_path.insert(0, _Finder(name, function, within))


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, name, function, within):
        self.name = name
        self.function = function
        self.within = within

    def find_spec(self, name, path, target=None):
        if name != self.name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None:
            self._run_after(spec.loader)
        return spec

    def _run_after(self, loader):
        execute = loader.exec_module

        def execute_and_run(module):
            with self.within():
                execute(module)
                self.function()

        loader.exec_module = execute_and_run
