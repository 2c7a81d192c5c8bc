"""One run of a program in its own process: its losses, gradients and outputs of modules go to a file.

    python -m torch_npu.tools.verify.worker --side cpu --steps 1 --out run.pt -- main.py --epochs 1

The program is unedited. torch.autograd.backward, the steps of optimizers and the forward functions of modules are observed. On
side cpu "cuda" means the CPU; on side npu random operators draw from the CPU's generator. Both begin with the same seed.
"""

from __future__ import annotations

import argparse
import gc
import random
import sys
from pathlib import Path
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_hook
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils import _pytree

from ...contrib._cuda_alias.cpu_target import CudaOnCpu
from ..coverage.programs import Limits, run_script
from .randomness import CpuRandom

_LARGEST = 1 << 16  # elements of an output that are kept


class Observations:
    """What a program does in its steps. Tensors are copied to the CPU."""

    def __init__(self) -> None:
        self.steps: list[dict[str, Any]] = []
        self._now = self._empty()
        self._names: dict[int, str] = {}

    @staticmethod
    def _empty() -> dict[str, Any]:
        return {"losses": [], "parameters": {}, "gradients": {}, "outputs": []}

    def loss(self, value: torch.Tensor) -> None:
        if value.numel() == 1:
            self._now["losses"].append(float(value.detach().float().cpu()))

    def output(self, module: torch.nn.Module, _: Any, result: Any) -> None:
        if self.steps:  # the first step is enough to say where two runs part
            return
        for tensor in _pytree.tree_leaves(result):
            if isinstance(tensor, torch.Tensor) and tensor.is_floating_point() and tensor.layout == torch.strided:
                self._now["outputs"].append([module, tensor.detach().flatten()[:_LARGEST].cpu().clone()])

    def step(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        """Before a step of an optimizer."""
        if not self._names:
            self._names = _parameter_names()
        count = 0
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                name = self._names.get(id(parameter), f"parameter {count}")
                count += 1
                self._now["parameters"][name] = _copy(parameter)
                if parameter.grad is not None:
                    self._now["gradients"][name] = _copy(parameter.grad)
        names = _module_names()
        self._now["outputs"] = [(names.get(id(module), type(module).__name__), value) for module, value in self._now["outputs"]]
        self.steps.append(self._now)
        self._now = self._empty()

    def end(self) -> None:
        """A program without an optimizer has one step without gradients."""
        if not self.steps and self._now["losses"]:
            names = _module_names()
            self._now["outputs"] = [
                (names.get(id(module), type(module).__name__), value) for module, value in self._now["outputs"]
            ]
            self.steps.append(self._now)


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensor.detach()
    return (tensor.to_dense() if tensor.layout != torch.strided else tensor).cpu().clone()


def _roots() -> list[torch.nn.Module]:
    modules = [each for each in gc.get_objects() if isinstance(each, torch.nn.Module)]
    inner = {id(child) for module in modules for child in module.children()}
    return [module for module in modules if id(module) not in inner]


def _parameter_names() -> dict[int, str]:
    """`Net.conv.weight`, by the identity of the parameter."""
    return {
        id(value): f"{type(root).__name__}.{name}"
        for root in _roots()
        for name, value in root.named_parameters(remove_duplicate=False)
    }


def _module_names() -> dict[int, str]:
    return {id(value): f"{type(root).__name__}.{name}".rstrip(".") for root in _roots() for name, value in root.named_modules()}


def observe(seen: Observations) -> None:
    backward = torch.autograd.backward  # Tensor.backward calls it

    def observed(tensors: Any, *args: Any, **kwargs: Any) -> None:
        for tensor in (tensors,) if isinstance(tensors, torch.Tensor) else tensors:
            seen.loss(tensor)
        backward(tensors, *args, **kwargs)

    torch.autograd.backward = observed
    register_optimizer_step_pre_hook(seen.step)
    register_module_forward_hook(seen.output)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m torch_npu.tools.verify.worker")
    parser.add_argument("--side", choices=("cpu", "npu"), required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("main", type=Path)
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    random.seed(options.seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(options.seed)
    seen = Observations()
    observe(seen)
    torch.npu.reset_fallback_stats()
    with CudaOnCpu() if options.side == "cpu" else CpuRandom():
        outcome = run_script(options.main, options.arguments, Limits(options.steps, options.seconds))
        seen.end()
    torch.save(
        {
            "ended": outcome.ended, "said": outcome.said, "traceback": outcome.traceback, "steps": seen.steps,
            "fallbacks": torch.npu.fallback_stats(),
        },
        options.out,
    )  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
