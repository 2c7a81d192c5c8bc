"""The base of the fused optimizers. Parameters, gradients and states of one dtype are combined in flat tensors, so that a step
takes a few operators for all parameters instead of a few for each.

    optimizer = NpuFusedAdam(model.parameters(), lr=1e-3)
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.clip_grad_norm_fused_(1.0)
    optimizer.step()

The first step (or zero_grad, or clipping) after a backward pass combines. From then on every parameter with a gradient, and that
gradient, are views of the tensors of get_combined_params and get_combined_grads. Programs may still set gradients to None,
replace gradients or data, and add parameters: the next step combines again. The formulas and the names in state_dict are those of
torch.optim.

A new optimizer implements `_step_chunk`: the formula of one step for a Chunk, whose tensors are flat.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch.optim.optimizer import Optimizer

from ..utils.combine_tensors import is_dense, move_into, split_like

if TYPE_CHECKING:
    from torch.optim.optimizer import ParamsT


_DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.float64]


class Chunk:
    """Parameters with the same group, dtype and number of steps.

    param, grad, state(name): flat tensors of all of them. step: the number of steps. params: the parameters."""

    def __init__(
        self,
        group: dict[str, Any],
        params: list[torch.Tensor],
        states: dict[torch.Tensor, Any],
        param: torch.Tensor,
        grad: torch.Tensor,
        step: int,
    ) -> None:
        self.group, self.params, self.states = group, params, [states[param] for param in params]
        self.param, self.grad, self.step = param, grad, step
        self._flat: dict[str, torch.Tensor] = {}
        self._count: torch.Tensor | None = None

    def state(self, name: str, start: float = 0.0) -> torch.Tensor:
        """A state with one value per element; `start` is its value before the first step."""
        if name not in self._flat:
            self._flat[name] = self._combine(name, start)
        return self._flat[name]

    def has(self, name: str) -> bool:
        return name in self._flat or any(state.get(name) is not None for state in self.states)

    def count_step(self) -> None:
        self.step += 1
        for state in self.states:
            state["step"] = self.step

    def step_tensor(self) -> torch.Tensor:
        """The number of steps as a tensor on the device, for the fused kernels."""
        if self._count is None:
            self._count = torch.full((), float(self.step - 1), device=self.param.device)
        return self._count.add_(1)

    def per_param(self, flat: torch.Tensor) -> list[torch.Tensor]:
        """The parts of a flat tensor, with the shapes of the parameters."""
        return split_like(flat, self.params)

    def spread(self, values: torch.Tensor) -> torch.Tensor:
        """Repeats one number per parameter for each of its elements."""
        if not hasattr(self, "_sizes"):
            self._sizes = torch.tensor([param.numel() for param in self.params], device=self.param.device)
        return values.repeat_interleave(self._sizes, output_size=self.param.numel())

    def _combine(self, name: str, start: float) -> torch.Tensor:
        flat = torch.full_like(self.param, start)
        views = self.per_param(flat)
        known = [(view, state[name]) for view, state in zip(views, self.states, strict=True) if state.get(name) is not None]
        if known:
            torch._foreach_copy_(*map(list, zip(*known, strict=True)))
        for view, state in zip(views, self.states, strict=True):
            state[name] = view
        return flat


class NpuFusedOptimizerBase(Optimizer):
    """The base class of the fused optimizers."""

    is_fused_optimizer = True
    _chunks: list[Chunk] | None = None
    _params: dict[torch.dtype, torch.Tensor]
    _grads: dict[torch.dtype, torch.Tensor]
    _views: list[tuple[torch.Tensor, int, torch.Tensor]]

    def __init__(self, params: ParamsT, default: dict[str, Any]) -> None:
        for name, value in default.items():
            if name == "lr" and (not isinstance(value, (int, float)) or value < 0):
                raise ValueError(f"{type(self).__name__}: lr must be a number that is not negative, not {value!r}")
        super().__init__(params, default)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            for name, value in self.defaults.items():
                group.setdefault(name, value)
        self._chunks = None

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        super().add_param_group(param_group)
        self._chunks = None

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Makes one step. closure: computes the loss and the gradients again; its result is returned."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._combine()
        self._before_step()
        for chunk in self._chunks or ():
            chunk.count_step()
            self._step_chunk(chunk, chunk.group)
            # Parameters share memory with the flat tensor, but not its version counter.
            torch.autograd.graph.increment_version(chunk.params)
        return loss

    @torch.no_grad()
    def zero_grad(self, set_to_none: bool = False) -> None:
        """Sets the gradients to zero. With set_to_none they become None, and the next step combines the new ones."""
        if set_to_none:
            super().zero_grad(set_to_none=True)
            return
        self._combine()
        for grad in self._grads.values():
            grad.zero_()

    def get_combined_params(self) -> list[torch.Tensor | None]:
        """The combined parameters: float32, float16, then bfloat16 and float64 if there are any; None for a dtype without any."""
        return _in_order(self._params if self._chunks else {})

    def get_combined_grads(self) -> list[torch.Tensor | None]:
        """The combined gradients, in the order of get_combined_params."""
        return _in_order(self._grads if self._chunks else {})

    @torch.no_grad()
    def clip_grad_norm_fused_(self, max_norm: float, norm_type: float = 2) -> torch.Tensor:
        """Scales the gradients so that their common norm is at most max_norm. Returns the norm before."""
        max_norm, norm_type = float(max_norm), float(norm_type)
        self._combine()
        if not self._grads:
            return torch.tensor(0.0)
        norms = [torch.linalg.vector_norm(grad, norm_type, dtype=_wide(grad.dtype)).float() for grad in self._grads.values()]
        total = torch.linalg.vector_norm(torch.stack(norms), norm_type)
        scale = (max_norm / (total + 1e-6)).clamp(max=1.0)
        for grad in self._grads.values():
            grad.mul_(scale)
        return total

    def _before_step(self) -> None:
        """Called once per step, before the first chunk."""

    def _step_chunk(self, chunk: Chunk, group: dict[str, Any]) -> None:
        raise NotImplementedError(f"{type(self).__name__} has no formula: use one of the optimizers of torch_npu.optim")

    def _combine(self) -> None:
        """Updates the combined tensors to the parameters that have gradients."""
        if self._chunks is None or not self._take_new_grads():
            self._build()

    def _take_new_grads(self) -> bool:
        """Copies replaced gradients into the combined ones. Returns False if anything else has changed too."""
        if sum(param.grad is not None for group in self.param_groups for param in group["params"]) != len(self._views):
            return False
        if len(self.state) < len(self._views):  # the program has cleared it
            return False
        old, new = [], []
        for param, address, view in self._views:
            grad = param.grad
            if grad is None or param.data_ptr() != address or param.shape != view.shape or param.dtype != view.dtype:
                return False
            if grad is not view:
                old.append((param, view))
                new.append(self._checked(grad))
        if old:
            torch._foreach_copy_([view for _, view in old], new)
            for param, view in old:
                param.grad = view
        return True

    def _build(self) -> None:
        chunks: dict[tuple[torch.dtype, int, int], list[torch.Tensor]] = {}
        for index, group in enumerate(self.param_groups):
            for param in group["params"]:
                if param.grad is not None:
                    self._checked(param.grad)
                    chunks.setdefault((param.dtype, index, self._steps_of(param)), []).append(param)
        members: dict[torch.dtype, list[torch.Tensor]] = {dtype: [] for dtype in _DTYPES}
        for (dtype, _, _), params in chunks.items():
            members[dtype] += params
        members = {dtype: params for dtype, params in members.items() if params}

        self._params, self._grads, self._views = {}, {}, []
        for dtype, params in members.items():
            self._params[dtype], self._grads[dtype] = self._flatten(params)
        offsets = dict.fromkeys(members, 0)
        self._chunks = []
        for (dtype, index, step), params in chunks.items():
            begin = offsets[dtype]
            end = offsets[dtype] = begin + sum(param.numel() for param in params)
            param, grad = self._params[dtype][begin:end], self._grads[dtype][begin:end]
            if begin < end:
                self._chunks.append(Chunk(self.param_groups[index], params, self.state, param, grad, step))

    def _flatten(self, params: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        device = params[0].device
        for param in params:
            if param.device.type != "npu" or param.device != device:
                raise RuntimeError(
                    f"{type(self).__name__} takes parameters of one npu device, but got some on {device} and {param.device}: "
                    "move the model by .npu() before the first step, and make one optimizer for each device"
                )
            if not is_dense(param):
                param.data = param.data.contiguous()
        numel = sum(param.numel() for param in params)
        flat = torch.empty(numel, dtype=params[0].dtype, device=device)
        grads = torch.empty_like(flat)
        move_into(flat, params)
        views = split_like(grads, params)
        torch._foreach_copy_(views, [param.grad for param in params])
        for param, view in zip(params, views, strict=True):
            param.grad = view
            self._views.append((param, param.data_ptr(), view))
        return flat, grads

    def _checked(self, grad: torch.Tensor) -> torch.Tensor:
        if grad.layout != torch.strided:
            raise RuntimeError(f"{type(self).__name__} does not take sparse gradients: use torch.optim.SparseAdam or SGD")
        if grad.dtype not in _DTYPES:
            raise TypeError(f"{type(self).__name__} takes parameters of {', '.join(map(str, _DTYPES))}, not {grad.dtype}")
        return grad

    def _steps_of(self, param: torch.Tensor) -> int:
        state = self.state[param]
        if "step" in state:
            return int(state["step"])
        # A state of torch.optim.SGD has no "step". If it has values, at least one step was made.
        return int(any(value is not None for value in state.values()))


def check(optimizer: str, **values: Any) -> None:
    """Raises ValueError for an option out of its range: betas are in [0, 1), the others are not negative."""
    for name, value in values.items():
        for number in value if name == "betas" else [value]:
            if number < 0 or (name in ("betas", "b1", "b2") and number >= 1):
                limits = "at least 0 and less than 1" if name in ("betas", "b1", "b2") else "not negative"
                raise ValueError(f"{optimizer}: {name} must be {limits}, not {value!r}")


def clip(grad: torch.Tensor, max_norm: float) -> None:
    """Scales a flat gradient in place so that its norm is at most max_norm."""
    norm = torch.linalg.vector_norm(grad, dtype=_wide(grad.dtype))
    grad.mul_((max_norm / (norm + 1e-6)).clamp(max=1.0))


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype == torch.float64 else torch.float32


def _in_order(tensors: dict[torch.dtype, torch.Tensor]) -> list[torch.Tensor | None]:
    wanted = [dtype for dtype in _DTYPES if dtype in _DTYPES[:2] or dtype in tensors]
    return [tensors.get(dtype) for dtype in wanted]
