"""Runs a program on fake tensors of npu: exact operators of the device, no memory and no arithmetic.

    with fake_npu(record):
        model(torch.ones(1, 3, 224, 224, device="cuda"))       # "cuda" means npu; nothing is computed

Where a program asks for a value (`loss.item()`, `nonzero`), the operator gets tensors of ones on the CPU, and the program its
answer.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    unset_fake_temporarily,
)
from torch.utils import _pytree
from torch.utils._python_dispatch import TorchDispatchMode

from .record import Record, Recorder


@contextlib.contextmanager
def fake_npu(record: Record) -> Iterator[None]:
    logger = logging.getLogger("torch_npu")
    level = logger.level
    logger.setLevel(logging.ERROR)  # that cuda means npu is a matter of the tool
    try:
        from ...contrib import transfer_to_npu  # its import applies it

        transfer_to_npu.undo()
        with transfer_to_npu.scope(), FakeTensorMode(allow_non_fake_inputs=True), _Guessing(), Recorder(record), _replaced():
            yield
    finally:
        logger.setLevel(level)


@contextlib.contextmanager
def _replaced() -> Iterator[None]:
    """Functions that read the memory of tensors, which fake ones do not have."""
    tensor = torch.Tensor
    replacements = (
        (torch.nn.Module, "_apply", _apply),
        (torch.jit, "trace", _refuse_trace),
        (tensor, "pin_memory", lambda self, device=None: self),
        (tensor, "tolist", _of_ones(tensor.tolist)),
        (tensor, "numpy", _of_ones(tensor.numpy)),
    )
    old = [(owner, name, vars(owner).get(name)) for owner, name, _ in replacements]
    for owner, name, value in replacements:
        setattr(owner, name, value)
    try:
        yield
    finally:
        for owner, name, value in old:
            if value is None:
                delattr(owner, name)
            else:
                setattr(owner, name, value)


def _of_ones(method: Callable[..., Any]) -> Callable[..., Any]:
    def call(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(self, FakeTensor):
            return method(self, *args, **kwargs)
        with unset_fake_temporarily():
            return method(torch.ones(self.shape, dtype=self.dtype), *args, **kwargs)

    return call


def _refuse_trace(*_: Any, **__: Any) -> NoReturn:
    raise NotImplementedError("torch.jit.trace needs tensors with data; leave --trace out")  # its check compares values


def _apply(self: torch.nn.Module, fn: Any, recurse: bool = True) -> torch.nn.Module:
    """Module._apply with new parameters: fake tensors cannot change their device in place. An optimizer that was made before
    keeps the old ones."""
    for module in self.modules() if recurse else (self,):
        with torch.no_grad():
            for name, value in module._parameters.items():
                if value is not None:
                    module._parameters[name] = torch.nn.Parameter(fn(value), value.requires_grad)
            for name, buffer in module._buffers.items():
                if buffer is not None:
                    module._buffers[name] = fn(buffer)
    return self


class _Guessing(TorchDispatchMode):
    """Answers operators whose result depends on values that fake tensors do not have."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        try:
            return func(*args, **kwargs)
        except (DataDependentOutputException, DynamicOutputShapeException):
            pass
        device = next(
            (leaf.device for leaf in _pytree.tree_leaves((args, kwargs)) if isinstance(leaf, FakeTensor)), torch.device("npu")
        )
        with unset_fake_temporarily():
            real = func(*_ones(args), **_ones(kwargs))

        def fake(value: Any) -> Any:
            if isinstance(value, torch.Tensor):
                return torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device=device)
            return value

        return _pytree.tree_map(fake, real)


def _ones(values: Any) -> Any:
    def one(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return torch.ones(value.shape, dtype=value.dtype)
        return torch.device("cpu") if isinstance(value, torch.device) else value

    return _pytree.tree_map(one, values)
