"""Layer-wise adaptive rate control (You et al., 2017): the rate of each parameter follows from its norm and its gradient's."""

from __future__ import annotations

from typing import Any

import torch


class LARC:
    """An optimizer around another one. For each parameter the rate is trust_coefficient * |p| / (|g| + weight_decay * |p| + eps),
    at most that of the inner optimizer (clip=True) or times it (clip=False). Weight decay is part of the gradient."""

    def __init__(
        self, optimizer: torch.optim.Optimizer, trust_coefficient: float = 0.02, clip: bool = True, eps: float = 1e-8
    ) -> None:
        self.optim = optimizer
        self.trust_coefficient, self.clip, self.eps = trust_coefficient, clip, eps

    def __getattr__(self, name: str) -> Any:
        if name == "optim":
            raise AttributeError(name)
        return getattr(self.optim, name)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def __repr__(self) -> str:
        return repr(self.optim)

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        return self.optim.param_groups

    @param_groups.setter
    def param_groups(self, value: list[dict[str, Any]]) -> None:
        self.optim.param_groups = value

    def step(self, closure: Any = None) -> Any:
        """Scales the gradients, and makes a step of the inner optimizer without its weight decay."""
        decays = [group.get("weight_decay", 0) for group in self.optim.param_groups]
        with torch.no_grad():
            for group, decay in zip(self.optim.param_groups, decays, strict=True):
                for param in group["params"]:
                    if param.grad is not None:
                        self._scale(param, group["lr"], decay)
        try:
            for group in self.optim.param_groups:
                if "weight_decay" in group:
                    group["weight_decay"] = 0
            return self.optim.step() if closure is None else self.optim.step(closure)
        finally:
            for group, decay in zip(self.optim.param_groups, decays, strict=True):
                if "weight_decay" in group:
                    group["weight_decay"] = decay

    def _scale(self, param: torch.Tensor, lr: float, decay: float) -> None:
        size, slope = torch.linalg.vector_norm(param), torch.linalg.vector_norm(param.grad)
        rate = self.trust_coefficient * size / (slope + size * decay + self.eps)
        if self.clip:
            rate = (rate / lr).clamp(max=1.0)
        decayed = (param.grad + decay * param) * rate
        # A parameter or a gradient of zeros has no rate of its own.
        param.grad.copy_(torch.where((size != 0) & (slope != 0), decayed, param.grad))
