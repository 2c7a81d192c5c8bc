"""NVIDIA's optimizers over torch.optim. On npu, the NpuFused* ones take fewer launches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .lamb import FusedLAMB, FusedMixedPrecisionLamb

__all__ = ["FusedAdagrad", "FusedAdam", "FusedLAMB", "FusedMixedPrecisionLamb", "FusedNovoGrad", "FusedSGD"]


class FusedAdam(torch.optim.Adam):
    """torch.optim.AdamW, or torch.optim.Adam with adam_w_mode=False. set_grad_none: zero_grad() sets gradients to None."""

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        bias_correction: bool = True,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        adam_w_mode: bool = True,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        set_grad_none: bool = True,
    ) -> None:
        if amsgrad:
            raise RuntimeError("FusedAdam has no amsgrad: use torch.optim.AdamW(amsgrad=True)")
        if not bias_correction:
            raise RuntimeError("FusedAdam is offered with bias_correction=True only: use apex.optimizers.NpuFusedBertAdam")
        super().__init__(params, lr, betas, eps, weight_decay, decoupled_weight_decay=adam_w_mode)
        self.adam_w_mode, self.set_grad_none = adam_w_mode, set_grad_none

    def zero_grad(self, set_to_none: bool | None = None) -> None:
        super().zero_grad(self.set_grad_none if set_to_none is None else set_to_none)


class FusedSGD(torch.optim.SGD):
    """torch.optim.SGD. set_grad_none: zero_grad() sets gradients to None."""

    def __init__(
        self,
        params: Any,
        lr: float,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        wd_after_momentum: bool = False,
        materialize_master_grads: bool = True,
        set_grad_none: bool = False,
    ) -> None:
        if wd_after_momentum:
            raise RuntimeError("FusedSGD is offered with wd_after_momentum=False only, which is the formula of torch.optim.SGD")
        super().__init__(params, lr, momentum, dampening, weight_decay, nesterov)
        self.set_grad_none = set_grad_none

    def zero_grad(self, set_to_none: bool | None = None) -> None:
        super().zero_grad(self.set_grad_none if set_to_none is None else set_to_none)


class FusedAdagrad(torch.optim.Adagrad):
    """torch.optim.Adagrad. set_grad_none: zero_grad() sets gradients to None."""

    def __init__(
        self,
        params: Any,
        lr: float = 1e-2,
        eps: float = 1e-10,
        weight_decay: float = 0.0,
        set_grad_none: bool = True,
        adagrad_w_mode: bool = False,
    ) -> None:
        if adagrad_w_mode:
            raise RuntimeError("FusedAdagrad is offered with adagrad_w_mode=False only, which is the formula of torch.optim.Adagrad")
        super().__init__(params, lr, weight_decay=weight_decay, eps=eps)
        self.set_grad_none = set_grad_none

    def zero_grad(self, set_to_none: bool | None = None) -> None:
        super().zero_grad(self.set_grad_none if set_to_none is None else set_to_none)


class FusedNovoGrad(torch.optim.Optimizer):
    """NovoGrad (Ginsburg et al., 2019): Adam with one second moment, an average of norms, for each parameter.

    reg_inside_moment: gradients are divided by the norm, and decayed, before the average. norm_type: 2, or 0 for the largest
    element. init_zero: the average of norms starts at zero, not at the first norm. grad_averaging: see FusedLAMB."""

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        bias_correction: bool = True,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        reg_inside_moment: bool = False,
        grad_averaging: bool = True,
        norm_type: int = 2,
        init_zero: bool = False,
        set_grad_none: bool = True,
    ) -> None:
        if amsgrad:
            raise RuntimeError("FusedNovoGrad has no amsgrad: use torch.optim.AdamW(amsgrad=True)")
        if norm_type not in (0, 2):
            raise RuntimeError(f"FusedNovoGrad: norm_type must be 2, or 0 for the largest element, not {norm_type!r}")
        options = {"bias_correction": bias_correction, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        more = {"grad_averaging": grad_averaging, "norm_type": norm_type, "init_zero": init_zero}
        super().__init__(params, {"lr": lr, **options, **more})
        self.reg_inside_moment, self.set_grad_none = reg_inside_moment, set_grad_none

    def zero_grad(self, set_to_none: bool | None = None) -> None:
        super().zero_grad(self.set_grad_none if set_to_none is None else set_to_none)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            group["step"] = group.get("step", 0) + 1
            for param in group["params"]:
                if param.grad is None:
                    continue
                if param.grad.is_sparse:
                    raise RuntimeError("FusedNovoGrad does not take sparse gradients: use torch.optim.SparseAdam")
                self._step_param(param, group)
        return loss

    def _step_param(self, param: torch.Tensor, group: dict[str, Any]) -> None:
        beta1, beta2 = group["betas"]
        grad = param.grad.float()
        norm = torch.linalg.vector_norm(grad, 2 if group["norm_type"] == 2 else float("inf"))
        state = self.state[param]
        if not state:
            state["exp_avg"] = torch.zeros_like(param)
            state["exp_avg_sq"] = torch.zeros_like(norm) if group["init_zero"] else norm.clone()
        average = state["exp_avg_sq"]
        if group["norm_type"] == 2:
            average.copy_((beta2 * average.square() + (1 - beta2) * norm.square()).sqrt())
        else:
            average.mul_(beta2).add_(norm, alpha=1 - beta2)
        first = 1 - beta1 ** group["step"] if group["bias_correction"] else 1.0
        second = (1 - beta2 ** group["step"]) ** 0.5 if group["bias_correction"] else 1.0
        denominator = average / second + group["eps"]
        share = 1 - beta1 if group["grad_averaging"] else 1.0
        if self.reg_inside_moment:
            grad = grad / denominator + group["weight_decay"] * param
            state["exp_avg"].mul_(beta1).add_(grad, alpha=share)
            param.sub_(state["exp_avg"] / first, alpha=group["lr"])
            return
        state["exp_avg"].mul_(beta1).add_(grad, alpha=share)
        param.sub_(state["exp_avg"] / first / denominator + group["weight_decay"] * param, alpha=group["lr"])
