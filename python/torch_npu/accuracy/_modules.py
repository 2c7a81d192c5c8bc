"""The module that runs now. Hooks that torch calls for every module keep track of it."""

from __future__ import annotations

import collections
import threading
import weakref
from collections.abc import Callable
from typing import Any

import torch


class Modules:
    """Follows calls of modules between open() and close(). Names are relative to `model`, or to the outermost called module."""

    def __init__(self, model: torch.nn.Module | None = None) -> None:
        self._names: weakref.WeakKeyDictionary[torch.nn.Module, str] = weakref.WeakKeyDictionary()
        self._thread = threading.local()
        self._hooks: list[Any] = []
        self.calls: collections.Counter[str] = collections.Counter()
        self.entered: Callable[[torch.nn.Module, str, Any], None] | None = None
        self.left: Callable[[torch.nn.Module, str, Any, Any], None] | None = None
        if model is not None:
            self._name(model)

    def open(self) -> None:
        register = torch.nn.modules.module
        self._hooks.append(register.register_module_forward_pre_hook(self._enter))
        self._hooks.append(register.register_module_forward_hook(self._leave, always_call=True))

    def close(self) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        self._thread = threading.local()

    @property
    def path(self) -> str:
        """The qualified name of the module that runs in this thread, or ""."""
        stack = self._stack()
        return self._names.get(stack[-1][0], "") or type(stack[-1][0]).__name__ if stack else ""

    @property
    def call(self) -> str | None:
        """The call of a module that runs in this thread, such as `Module.layer.0.Linear.forward.2`."""
        stack = self._stack()
        return stack[-1][1] if stack else None

    def _stack(self) -> list[tuple[torch.nn.Module, str]]:
        if not hasattr(self._thread, "stack"):
            self._thread.stack = []
        return self._thread.stack

    def _name(self, root: torch.nn.Module) -> None:
        for name, module in root.named_modules():
            self._names[module] = name

    def _enter(self, module: torch.nn.Module, inputs: Any) -> None:
        if torch.compiler.is_compiling():  # the modules inside of a compiled one are not followed
            return
        if module not in self._names:
            self._name(module)
        stem = ".".join(filter(None, ["Module", self._names[module], type(module).__name__, "forward"]))
        name = f"{stem}.{self.calls[stem]}"
        self.calls[stem] += 1
        if self.entered is not None:
            self.entered(module, name, inputs)
        self._stack().append((module, name))

    def _leave(self, module: torch.nn.Module, inputs: Any, outputs: Any) -> None:
        if torch.compiler.is_compiling():
            return
        stack = self._stack()
        if not any(each is module for each, _ in stack):
            return  # the module was entered before open()
        while True:
            each, name = stack.pop()
            if each is module:
                break
        if self.left is not None:
            self.left(module, name, inputs, outputs)
