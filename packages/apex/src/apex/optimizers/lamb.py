"""LAMB (You et al., 2019): Adam whose step for each parameter is scaled by the ratio of the norms of parameter and step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


class _Lamb(torch.optim.Optimizer):
    set_grad_none = True

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._before_step()
        for group in self.param_groups:
            group["step"] = group.get("step", 0) + 1
            params = [param for param in group["params"] if param.grad is not None]
            if any(param.grad.is_sparse for param in params):
                raise RuntimeError(f"{type(self).__name__} does not take sparse gradients: use torch.optim.SparseAdam")
            for param in params:
                if not self.state[param]:
                    self.state[param].update(exp_avg=torch.zeros_like(param), exp_avg_sq=torch.zeros_like(param))
            if params:
                self._step_group(params, group)
        return loss

    def zero_grad(self, set_to_none: bool | None = None) -> None:
        super().zero_grad(self.set_grad_none if set_to_none is None else set_to_none)

    def _before_step(self) -> None:
        """Called once per step."""

    def _step_group(self, params: list[torch.Tensor], group: dict[str, Any]) -> None:
        raise NotImplementedError


class Lamb(_Lamb):
    """LAMB without bias correction. The norm of a parameter counts as at most 10. adam: the ratio is 1."""

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0,
        adam: bool = False,
    ) -> None:
        _check("Lamb", lr, betas, eps)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})
        self.adam = adam

    def _step_group(self, params: list[torch.Tensor], group: dict[str, Any]) -> None:
        grads = [param.grad for param in params]
        updates = _averages(self, params, grads, group, 1.0, 1.0, 1 - group["betas"][0])
        if group["weight_decay"]:
            torch._foreach_add_(updates, params, alpha=group["weight_decay"])
        ratios = [torch.ones_like(param.flatten()[0]) for param in params]
        if not self.adam:
            norms = torch._foreach_clamp_max(torch._foreach_norm(params), 10.0)
            ratios = _ratios(norms, torch._foreach_norm(updates))
        for param, update, ratio in zip(params, updates, ratios, strict=True):
            param.sub_(update * ratio, alpha=group["lr"])


class FusedLAMB(_Lamb):
    """LAMB with bias correction. Gradients are first clipped to max_grad_norm, all together.

    adam_w_mode=False: weight decay is added to the gradients. grad_averaging=False: the first moment adds gradients with the
    factor 1, not 1 - beta1. use_nvlamb: the ratio of norms also scales parameters without weight decay."""

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        bias_correction: bool = True,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.01,
        amsgrad: bool = False,
        adam_w_mode: bool = True,
        grad_averaging: bool = True,
        set_grad_none: bool = True,
        max_grad_norm: float = 1.0,
        use_nvlamb: bool = False,
    ) -> None:
        if amsgrad:
            raise RuntimeError("FusedLAMB has no amsgrad: use torch.optim.AdamW(amsgrad=True)")
        _check("FusedLAMB", lr, betas, eps)
        options = {"bias_correction": bias_correction, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, {"lr": lr, **options, "grad_averaging": grad_averaging, "max_grad_norm": max_grad_norm})
        self.adam_w_mode, self.set_grad_none, self.use_nvlamb = adam_w_mode, set_grad_none, use_nvlamb

    def _before_step(self) -> None:
        grads = [param.grad for group in self.param_groups for param in group["params"] if param.grad is not None]
        grads = [grad for grad in grads if not grad.is_sparse]
        self._divisor: torch.Tensor | None = None
        limit = self.defaults["max_grad_norm"]
        if grads and limit > 0:
            norms = torch.stack([norm.float() for norm in torch._foreach_norm(grads)])
            self._divisor = (torch.linalg.vector_norm(norms) / limit).clamp(min=1.0)

    def _step_group(self, params: list[torch.Tensor], group: dict[str, Any]) -> None:
        grads = [param.grad.float() for param in params]
        if self._divisor is not None:
            grads = [grad / self._divisor for grad in grads]
        decay = group["weight_decay"]
        if decay and not self.adam_w_mode:
            torch._foreach_add_(grads, params, alpha=decay)
        beta1, beta2 = group["betas"]
        first = 1 - beta1 ** group["step"] if group["bias_correction"] else 1.0
        second = 1 - beta2 ** group["step"] if group["bias_correction"] else 1.0
        updates = _averages(self, params, grads, group, first, second, 1 - beta1 if group["grad_averaging"] else 1.0)
        if decay and self.adam_w_mode:
            torch._foreach_add_(updates, params, alpha=decay)
        if decay or self.use_nvlamb:
            ratios = _ratios(torch._foreach_norm(params), torch._foreach_norm(updates))
            updates = [update * ratio for update, ratio in zip(updates, ratios, strict=True)]
        torch._foreach_add_(params, updates, alpha=-group["lr"])


class FusedMixedPrecisionLamb(FusedLAMB):
    """Not offered."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError("FusedMixedPrecisionLamb is not offered: use apex.optimizers.FusedLAMB with amp.initialize(opt_level='O2')")


def _averages(
    optimizer: torch.optim.Optimizer,
    params: list[torch.Tensor],
    grads: list[torch.Tensor],
    group: dict[str, Any],
    first: float,
    second: float,
    share: float,
) -> list[torch.Tensor]:
    """Updates both moments. Returns the steps of Adam; first, second: corrections of the moments."""
    beta1, beta2 = group["betas"]
    means = [optimizer.state[param]["exp_avg"] for param in params]
    squares = [optimizer.state[param]["exp_avg_sq"] for param in params]
    torch._foreach_mul_(means, beta1)
    torch._foreach_add_(means, grads, alpha=share)
    torch._foreach_mul_(squares, beta2)
    torch._foreach_addcmul_(squares, grads, grads, 1 - beta2)
    roots = torch._foreach_sqrt(torch._foreach_div(squares, second))
    torch._foreach_add_(roots, group["eps"])
    return list(torch._foreach_div(torch._foreach_div(means, first), roots))


def _ratios(norms: Any, step_norms: Any) -> list[torch.Tensor]:
    return [torch.where((norm > 0) & (step > 0), norm / step, 1.0) for norm, step in zip(norms, step_norms, strict=True)]


def _check(name: str, lr: float, betas: tuple[float, float], eps: float) -> None:
    if lr < 0 or eps < 0 or not all(0 <= beta < 1 for beta in betas):
        raise ValueError(f"{name}: lr and eps must not be negative, and betas must be in [0, 1), not {lr!r}, {eps!r}, {betas!r}")
