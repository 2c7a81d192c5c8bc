"""Random operators of npu draw from the CPU's generators, so that a program on npu gets the numbers that it gets on the CPU.

with CpuRandom():
    torch.rand(2, device="npu")     # the numbers of torch.rand(2)
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree
from torch.utils._python_dispatch import TorchDispatchMode


class CpuRandom(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self._twins: dict[int, tuple[Any, torch.Generator]] = {}  # generator of npu (kept alive) and its twin

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if torch.Tag.nondeterministic_seeded not in func.tags:
            return func(*args, **kwargs)
        device = _npu_of(args, kwargs)
        if device is None:
            return func(*args, **kwargs)
        if func._schema.name == "aten::native_dropout":
            return _dropout(*args, **kwargs)
        there_args, there_kwargs = _pytree.tree_map(self._to_cpu, (args, kwargs))
        result = func(*there_args, **there_kwargs)
        written = self._write_back(func, args, kwargs, there_args, there_kwargs)

        def back(value: Any) -> Any:
            if not isinstance(value, torch.Tensor):
                return value
            return written[id(value)] if id(value) in written else value.to(device)

        return _pytree.tree_map(back, result)

    def _to_cpu(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value.cpu()
        if isinstance(value, torch.device):
            return torch.device("cpu") if value.type == "npu" else value
        if isinstance(value, torch.Generator) and value.device.type == "npu":
            if id(value) not in self._twins:
                self._twins[id(value)] = (value, torch.Generator().manual_seed(value.initial_seed()))
            return self._twins[id(value)][1]
        return value

    @staticmethod
    def _write_back(func: Any, args: Any, kwargs: Any, there_args: Any, there_kwargs: Any) -> dict[int, torch.Tensor]:
        """Copies arguments that the operator wrote; id of the copy on the CPU -> the tensor of npu."""
        written = {}
        for index, argument in enumerate(func._schema.arguments):
            if argument.alias_info is None or not argument.alias_info.is_write:
                continue
            here, there = (
                (args[index], there_args[index])
                if index < len(args)
                else (kwargs.get(argument.name), there_kwargs.get(argument.name))
            )
            if isinstance(here, torch.Tensor) and here is not there:
                if here.shape != there.shape:
                    here.resize_(there.shape)
                here.copy_(there)
                written[id(there)] = here
        return written


def _dropout(tensor: torch.Tensor, p: float, train: bool | None) -> tuple[torch.Tensor, torch.Tensor]:
    """native_dropout, with the mask that the CPU's dropout draws: it fills a tensor of the dtype of its argument."""
    if train is False or p == 0:
        return tensor.clone(), torch.ones_like(tensor, dtype=torch.bool)
    if p == 1:
        return torch.zeros_like(tensor), torch.zeros_like(tensor, dtype=torch.bool)
    mask = torch.empty_like(tensor, device="cpu").bernoulli_(1 - p).to(tensor.device)
    return tensor * (mask / (1 - p)), mask.bool()


def _npu_of(args: Any, kwargs: Any) -> torch.device | None:
    for leaf in _pytree.tree_leaves((args, kwargs)):
        if isinstance(leaf, torch.Tensor) and leaf.device.type == "npu":
            return leaf.device
        if isinstance(leaf, torch.device) and leaf.type == "npu":
            return leaf
    return None
