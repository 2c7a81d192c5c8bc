"""Runs a function right after a module is imported, or now if the module is imported already.

    on_import("torch._dynamo", lambda: importlib.import_module("torch_npu._dynamo"))

So code for modules that few programs use is imported only with them. The module and the function run inside the context manager
that within() returns.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


def on_import(
    name: str, function: Callable[[], Any], within: Callable[[], AbstractContextManager[Any]] = contextlib.nullcontext
) -> None:
    if name in sys.modules:
        function()
    else:
        sys.meta_path.insert(0, _Finder(name, function, within))


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, name: str, function: Callable[[], Any], within: Callable[[], AbstractContextManager[Any]]) -> None:
        self.name = name
        self.function = function
        self.within = within

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != self.name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None:
            self._run_after(spec.loader)
        return spec

    def _run_after(self, loader: Any) -> None:
        execute = loader.exec_module

        def execute_and_run(module: ModuleType) -> None:
            with self.within():
                execute(module)
                self.function()

        loader.exec_module = execute_and_run
