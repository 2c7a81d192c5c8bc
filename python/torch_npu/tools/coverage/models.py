"""A model by the name of its factory: forward and, if it has parameters that need it, backward.

    model, inputs = load("models/net.py:build", shapes=["1x3x224x224"])
    run_model(model, inputs, backward=True)

The factory returns a module, or a module and its inputs (a tensor, a tuple or a dict).
"""

from __future__ import annotations

import importlib
import os
import re
import runpy
import sys
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree


class BadModel(ValueError):
    """One sentence about the name, the factory or the inputs."""


def load(spec: str, shapes: list[str]) -> tuple[torch.nn.Module, Any]:
    place, _, name = spec.rpartition(":")
    factory = _factory(place, name, spec)
    made = factory() if callable(factory) and not isinstance(factory, torch.nn.Module) else factory
    model, inputs = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
    if not isinstance(model, torch.nn.Module):
        raise BadModel(f"{spec} made {type(model).__name__}; a factory returns a torch.nn.Module, or a module and its inputs")
    if shapes:
        inputs = tuple(parse_input(shape) for shape in shapes)
    if inputs is None:
        raise BadModel(
            f"{spec} made a module without inputs; return (module, inputs) or give --input, such as --input 1x3x224x224"
        )
    return model, inputs


def _factory(place: str, name: str, spec: str) -> Any:
    if place.endswith(".py"):
        if not Path(place).is_file():
            raise BadModel(f"{place} does not exist; give FILE.py:FACTORY or MODULE:FACTORY")
        sys.path.insert(0, str(Path(place).resolve().parent))
        names = runpy.run_path(place)
    else:
        sys.path.insert(0, os.getcwd())
        try:
            names = vars(importlib.import_module(place))
        except ModuleNotFoundError as error:
            raise BadModel(f"{spec}: {error}; give FILE.py:FACTORY or MODULE:FACTORY") from None
    if name not in names:
        raise BadModel(f"{place} has no {name}; its names: {', '.join(key for key in names if not key.startswith('_'))[:200]}")
    return names[name]


def parse_input(text: str) -> torch.Tensor:
    """`1x3x224x224` or `2x16:int64`: a tensor of random numbers, or of zeros for integers."""
    found = re.fullmatch(r"(\d+(?:x\d+)*)(?::(\w+))?", text)
    dtype = getattr(torch, found[2], None) if found and found[2] else torch.float32
    if found is None or not isinstance(dtype, torch.dtype):
        raise BadModel(f"--input is a shape with a dtype, such as 1x3x224x224 or 2x16:int64, but got {text!r}")
    shape = [int(size) for size in found[1].split("x")]
    return torch.randn(shape, dtype=dtype) if dtype.is_floating_point else torch.zeros(shape, dtype=dtype)


def run_model(model: torch.nn.Module, inputs: Any, backward: bool, device: str | None = None) -> None:
    if device is not None:
        model = model.to(device)
        inputs = _pytree.tree_map(lambda value: value.to(device) if isinstance(value, torch.Tensor) else value, inputs)
    if isinstance(inputs, dict):
        result = model(**inputs)
    else:
        result = model(*inputs) if isinstance(inputs, (tuple, list)) else model(inputs)
    if backward:
        roots = [each for each in _pytree.tree_leaves(result) if isinstance(each, torch.Tensor) and each.requires_grad]
        if roots:
            torch.autograd.backward([root.float().sum() if root.is_floating_point() else root.abs().sum() for root in roots])
