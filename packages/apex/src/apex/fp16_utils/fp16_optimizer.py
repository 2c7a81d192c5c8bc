"""FP16_Optimizer: master weights and loss scaling around an optimizer, for models that are cast by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..amp.scaler import LossScaler
from .fp16util import clip_grad_norm


class FP16_Optimizer:
    """optimizer.backward(loss) scales the loss and divides the gradients of float32 masters; step() updates masters and model.

    New programs use apex.amp with opt_level="O2", which does the same."""

    def __init__(
        self,
        init_optimizer: torch.optim.Optimizer,
        static_loss_scale: float = 1.0,
        dynamic_loss_scale: bool = False,
        dynamic_loss_args: dict[str, Any] | None = None,
        verbose: bool = True,
    ) -> None:
        self.optimizer, self.verbose = init_optimizer, verbose
        self.fp16_groups: list[list[torch.Tensor]] = []
        self.fp32_from_fp16_groups: list[list[torch.Tensor]] = []
        self.fp32_from_fp32_groups: list[list[torch.Tensor]] = []
        for group in init_optimizer.param_groups:
            self._add_masters(group)
        init_optimizer.load_state_dict(init_optimizer.state_dict())
        self.loss_scaler = LossScaler("dynamic" if dynamic_loss_scale else static_loss_scale, **(dynamic_loss_args or {}))
        self.dynamic_loss_scale = dynamic_loss_scale
        self.overflow = False
        self.clip_grad_norm = clip_grad_norm

    def __getattr__(self, name: str) -> Any:
        if name == "optimizer":
            raise AttributeError(name)
        return getattr(self.optimizer, name)

    def zero_grad(self, set_grads_to_None: bool = False) -> None:
        for group in (*(group["params"] for group in self.optimizer.param_groups), *self.fp16_groups):
            for param in group:
                if set_grads_to_None:
                    param.grad = None
                elif param.grad is not None:
                    param.grad.detach_().zero_()

    def backward(self, loss: torch.Tensor, update_master_grads: bool = True, retain_graph: bool = False) -> None:
        """Scales the loss and calls its backward. update_master_grads=False: call update_master_grads() after the last one."""
        (loss.float() * self.loss_scaler.loss_scale()).backward(retain_graph=retain_graph)
        if update_master_grads:
            self.update_master_grads()

    @torch.no_grad()
    def update_master_grads(self) -> None:
        """Copies the gradients to the masters, divides them, and looks for an overflow."""
        self.loss_scaler.clear_overflow_state()
        grads = []
        for low, masters in zip(self.fp16_groups, self.fp32_from_fp16_groups, strict=True):
            for param, master in zip(low, masters, strict=True):
                master.grad = None if param.grad is None else param.grad.float()
                grads.append(master.grad)
        grads += [param.grad for group in self.fp32_from_fp32_groups for param in group]
        self.loss_scaler.unscale_([grad for grad in grads if grad is not None])
        self.overflow = self.loss_scaler.update_scale()

    def clip_master_grads(self, max_norm: float, norm_type: float = 2) -> Any:
        """Clips the gradients of the masters and returns their norm; -1 after an overflow."""
        if self.overflow:
            return -1
        params = [param for group in self.optimizer.param_groups for param in group["params"]]
        return self.clip_grad_norm(params, max_norm, norm_type)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step of the optimizer, unless the gradients overflowed. The closure calls optimizer.backward(loss)."""
        if closure is not None:
            return self._step_with(closure)
        if self.overflow:
            if self.verbose:
                print(f"Gradient overflow.  Skipping step, reducing loss scale to {self.loss_scaler.loss_scale()}")
            return None
        result = self.optimizer.step()
        self._masters_to_model()
        return result

    def state_dict(self) -> dict[str, Any]:
        return {
            "loss_scaler": self.loss_scaler._state(),
            "dynamic_loss_scale": self.dynamic_loss_scale,
            "overflow": self.overflow,
            "optimizer_state_dict": self.optimizer.state_dict(),
            "fp32_from_fp16": [[param.detach() for param in group] for group in self.fp32_from_fp16_groups],
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.loss_scaler._loss_scale = state_dict["loss_scaler"]["loss_scale"]
        self.loss_scaler._unskipped = state_dict["loss_scaler"]["unskipped"]
        self.overflow = state_dict["overflow"]
        self.optimizer.load_state_dict(state_dict["optimizer_state_dict"])
        with torch.no_grad():
            for masters, saved in zip(self.fp32_from_fp16_groups, state_dict["fp32_from_fp16"], strict=True):
                for master, value in zip(masters, saved, strict=True):
                    master.copy_(value)
        self._masters_to_model()

    def inspect_master_grad_data(self) -> list[list[torch.Tensor | None]] | None:
        """The gradients of the masters, per group; None after an overflow."""
        if self.overflow:
            return None
        return [[param.grad for param in group["params"]] for group in self.optimizer.param_groups]

    @property
    def loss_scale(self) -> float:
        return self.loss_scaler.loss_scale()

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        return self.optimizer.param_groups

    @property
    def state(self) -> Any:
        return self.optimizer.state

    def _step_with(self, closure: Callable[[], Any]) -> Any:
        def scaled() -> Any:
            self._masters_to_model()
            loss = closure()
            while self.overflow:
                loss = closure()
            return loss

        result = self.optimizer.step(scaled)
        self._masters_to_model()
        return result

    @torch.no_grad()
    def _masters_to_model(self) -> None:
        for low, masters in zip(self.fp16_groups, self.fp32_from_fp16_groups, strict=True):
            if low:
                torch._foreach_copy_(low, masters)

    def _add_masters(self, group: dict[str, Any]) -> None:
        low, masters, wide = [], [], []
        for index, param in enumerate(group["params"]):
            if not param.requires_grad:
                continue
            if param.dtype != torch.float16:
                wide.append(param)
                continue
            master = torch.nn.Parameter(param.detach().float())
            group["params"][index] = master
            if param in self.optimizer.state:
                self.optimizer.state[master] = self.optimizer.state.pop(param)
            low.append(param)
            masters.append(master)
        self.fp16_groups.append(low)
        self.fp32_from_fp16_groups.append(masters)
        self.fp32_from_fp32_groups.append(wide)
