"""The base of the fused optimizers. Parameters, gradients and states of one dtype are combined in flat tensors, so that a step
takes a few operators for all parameters instead of a few for each.

    optimizer = NpuFusedAdam(model.parameters(), lr=1e-3)
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.clip_grad_norm_fused_(1.0)
    optimizer.step()

The first step (or zero_grad, or clipping) after a backward pass combines. From then on every parameter with a gradient, and that
gradient, are views of the tensors of get_combined_params and get_combined_grads. Programs may still set gradients to None,
replace gradients, data or states, and add parameters: the next step combines again. Tensors that shared memory with a parameter
before do not share it afterwards. The formulas and the names in state_dict are those of torch.optim.

The parameters may be those of a model or the float32 copies that apex makes of them.

A new optimizer implements `_step_part`, the formula of one step for flat tensors, or `_step_chunk` if the formula needs all
elements of a parameter at once.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.optim.optimizer import Optimizer

from ..utils.combine_tensors import first_overlap, is_dense, move_into, split_like
from .chunk import Chunk, Part

if TYPE_CHECKING:
    from torch.optim.optimizer import ParamsT


_DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.float64]

_Tensor = torch._C.TensorBase
_data_ptr, _stride, _is_contiguous = _Tensor.data_ptr, _Tensor.stride, _Tensor.is_contiguous


class Flat(NamedTuple):
    """Parameters of one dtype, and the flat tensors that hold them and their gradients in this order."""

    params: list[torch.Tensor]
    param: torch.Tensor
    grad: torch.Tensor


class _Layout(NamedTuple):
    """What the chunks were made for. If a program changes any of it, they are made again."""

    members: list[torch.Tensor]  # all parameters of the optimizer
    views: list[torch.Tensor | None]  # their gradients, views of the flat ones
    states: list[dict[str, Any]]
    active: list[torch.Tensor]  # the parameters with a gradient
    addresses: list[int]
    contiguous: list[bool]
    permuted: list[torch.Tensor]  # those that are not contiguous
    strides: list[tuple[int, ...]]  # their strides
    grads: list[torch.Tensor]  # their gradients
    grad_addresses: list[int]


class NpuFusedOptimizerBase(Optimizer):
    """The base class of the fused optimizers."""

    is_fused_optimizer = True  # torch_npu's name for it
    is_npu_fused_optimizer = True  # apex's

    # The value of "step" in the state of a parameter, made from the number of steps; None: the optimizer does not count.
    _stored_step: Callable[[int], Any] | None = int

    _chunks: list[Chunk] | None = None
    _layout: _Layout
    _spans: dict[tuple[torch.dtype, int], tuple[int, int]]  # the elements of a group in the flat tensor of a dtype
    _flats: dict[torch.dtype, Flat]  # of the parameters that have gradients now
    _kept: dict[torch.dtype, Flat]  # the last ones of each dtype, to be used again

    def __init__(self, params: ParamsT, default: dict[str, Any]) -> None:
        for name, value in default.items():
            if name == "lr" and (not isinstance(value, (int, float)) or not value >= 0):
                raise ValueError(f"{type(self).__name__}: lr must be a number that is not negative, not {value!r}")
        self._flats, self._kept = {}, {}
        super().__init__(params, default)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._flats, self._kept = {}, self.__dict__.get("_kept", {})
        super().__setstate__(state)
        for group in self.param_groups:
            for name, value in self.defaults.items():
                group.setdefault(name, value)
        self._chunks = None

    def state_dict(self) -> dict[str, Any]:
        result = super().state_dict()
        # Parameters share their counter. The optimizer that loads this may count each of them.
        result["state"] = {key: _with_own_step(state) for key, state in result["state"].items()}
        return result

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
        chunks = self._combine()
        if not chunks:
            return loss
        self._before_step()
        for chunk in chunks:
            chunk.count_step()
            self._step_chunk(chunk, chunk.group)
        # Parameters share memory with the flat tensor, but not its version counter.
        torch.autograd.graph.increment_version(self._layout.active)
        if len(self.state) != len(self._layout.states):
            self._layout = self._layout._replace(states=list(self.state.values()))
        return loss

    @torch.no_grad()
    def zero_grad(self, set_to_none: bool = False) -> None:
        """Sets the gradients to zero. With set_to_none they become None, and the next step combines the new ones."""
        if set_to_none:
            super().zero_grad(set_to_none=True)
            return
        self._combine()
        for flat in self._flats.values():
            flat.grad.zero_()

    def get_combined_params(self) -> list[torch.Tensor | None]:
        """The combined parameters: float32, float16, then bfloat16 and float64 if there are any; None for a dtype without any."""
        self._combine()
        return self._in_order({dtype: flat.param for dtype, flat in self._flats.items()})

    def get_combined_grads(self) -> list[torch.Tensor | None]:
        """The combined gradients, in the order of get_combined_params."""
        self._combine()
        return self._in_order({dtype: flat.grad for dtype, flat in self._flats.items()})

    def get_optimizer_combined_params(self) -> list[torch.Tensor]:
        """The combined parameters, one tensor per dtype. There are none before the first backward pass."""
        return [tensor for tensor in self.get_combined_params() if tensor is not None]

    def get_optimizer_combined_grads(self) -> list[torch.Tensor]:
        """The combined gradients, one tensor per dtype, in the order of get_optimizer_combined_params."""
        return [tensor for tensor in self.get_combined_grads() if tensor is not None]

    @torch.no_grad()
    def clip_grad_norm_fused_(self, max_norm: float, norm_type: float = 2) -> torch.Tensor:
        """Scales the gradients so that their common norm is at most max_norm. Returns the norm before."""
        max_norm, norm_type = float(max_norm), float(norm_type)
        self._combine()
        grads = [flat.grad for flat in self._flats.values() if flat.grad.numel()]
        if not grads:
            return torch.tensor(0.0)
        if norm_type == 0:  # counts tensors, so it is not the norm of a combined one
            total = torch.nn.utils.get_total_norm(self._layout.grads, norm_type)
        else:
            norms = [torch.linalg.vector_norm(grad, norm_type, dtype=_wide(grad.dtype)) for grad in grads]
            total = norms[0]
            if len(norms) > 1:
                total = torch.linalg.vector_norm(torch.stack([norm.to(_widest(norms)) for norm in norms]), norm_type)
        scale = (max_norm / (total + 1e-6)).clamp(max=1.0)
        for grad in grads:
            grad.mul_(scale)
        return total

    def clip_optimizer_grad_norm_fused(self, max_norm: float, norm_type: float = 2) -> torch.Tensor:
        """apex's name of clip_grad_norm_fused_."""
        return self.clip_grad_norm_fused_(max_norm, norm_type)

    def _before_step(self) -> None:
        """Called once per step, before the first chunk."""

    def _step_chunk(self, chunk: Chunk, group: dict[str, Any]) -> None:
        for part in chunk.parts():
            self._step_part(part, group)

    def _step_part(self, part: Chunk | Part, group: dict[str, Any]) -> None:
        raise NotImplementedError(f"{type(self).__name__} has no formula: use one of the optimizers of torch_npu.optim")

    def _group_grads(self) -> list[tuple[dict[str, Any], torch.Tensor]]:
        """The flat gradients of each group and dtype."""
        return [
            (self.param_groups[index], self._flats[dtype].grad[begin:end]) for (dtype, index), (begin, end) in self._spans.items()
        ]

    def _dense_grad(self, grad: torch.Tensor) -> torch.Tensor:
        """The gradient to combine for one that is not strided."""
        raise RuntimeError(f"{type(self).__name__} does not take sparse gradients: use torch.optim.SparseAdam or NpuFusedSGD")

    def _combine(self) -> list[Chunk]:
        """Updates the combined tensors to the parameters that have gradients."""
        if self._chunks is None or not self._is_current(self._chunks):
            self._chunks = None
            with torch.no_grad():
                self._chunks = self._build()
        return self._chunks

    def _is_current(self, chunks: list[Chunk]) -> bool:
        """Whether the chunks fit. Gradients that were replaced are copied into the combined ones."""
        layout = self._layout
        params = [param for group in self.param_groups for param in group["params"]]
        grads = [param.grad for param in params]
        fits = (
            _are(params, layout.members)
            and list(map(_data_ptr, layout.active)) == layout.addresses
            and list(map(_is_contiguous, layout.active)) == layout.contiguous
            and list(map(_stride, layout.permuted)) == layout.strides
            and list(map(_data_ptr, layout.grads)) == layout.grad_addresses
            and _are(self.state.values(), layout.states)
            and all(chunk.is_intact() for chunk in chunks)
        )
        return fits and (_are(grads, layout.views) or self._take(grads))

    def _take(self, grads: list[torch.Tensor | None]) -> bool:
        """Copies replaced gradients into the combined ones. Returns False if other parameters have gradients now."""
        replaced = []
        for param, grad, view in zip(self._layout.members, grads, self._layout.views, strict=True):
            if grad is view:
                continue
            if grad is None or view is None or grad.shape != view.shape:
                return False
            replaced.append((param, self._strided(grad), view))
        with torch.no_grad():
            self._copy_grads(replaced, self._flats.values())
        return True

    def _build(self) -> list[Chunk]:
        members = [param for group in self.param_groups for param in group["params"]]
        active = [param for param in members if param.grad is not None]
        grads = {param: self._strided(param.grad) for param in active}
        self._check(active)

        chunks: dict[tuple[torch.dtype, int, int], list[torch.Tensor]] = {}
        for index, group in enumerate(self.param_groups):
            for param in group["params"]:
                if param.grad is not None:
                    chunks.setdefault((param.dtype, index, self._steps_of(param)), []).append(param)
        dtypes: dict[torch.dtype, list[torch.Tensor]] = {}
        for (dtype, _, _), params in chunks.items():
            dtypes.setdefault(dtype, []).extend(params)

        flats = {dtype: self._flat(params) for dtype, params in dtypes.items()}
        for dtype, flat in flats.items():
            if flat is not self._kept.get(dtype):
                move_into(flat.param, flat.params)
            views = split_like(flat.grad, flat.params)
            self._copy_grads([(param, grads[param], view) for param, view in zip(flat.params, views, strict=True)], [flat])
        self._flats, self._kept = flats, {**self._kept, **flats}

        views = [param.grad for param in active]
        permuted = [param for param in active if not param.is_contiguous()]
        self._layout = _Layout(
            members=members,
            views=[param.grad for param in members],
            states=list(self.state.values()),
            active=active,
            addresses=list(map(_data_ptr, active)),
            contiguous=list(map(_is_contiguous, active)),
            permuted=permuted,
            strides=list(map(_stride, permuted)),
            grads=views,
            grad_addresses=list(map(_data_ptr, views)),
        )
        made, offsets, self._spans = [], dict.fromkeys(flats, 0), {}
        for (dtype, index, step), params in chunks.items():
            begin = offsets[dtype]
            end = offsets[dtype] = begin + sum(param.numel() for param in params)
            self._spans[dtype, index] = (self._spans.get((dtype, index), (begin, end))[0], end)
            param, grad = flats[dtype].param[begin:end], flats[dtype].grad[begin:end]
            made.append(Chunk(self.param_groups[index], params, self.state, param, grad, step, self._stored_step))
        return made

    def _check(self, active: list[torch.Tensor]) -> None:
        """Raises for parameters that cannot be combined."""
        name = type(self).__name__
        for param in active:
            device = active[0].device
            if param.device != device or device.type not in ("npu", "cpu"):
                raise RuntimeError(
                    f"{name} takes parameters of one device, npu or cpu, but got some on {device} and {param.device}: "
                    "move the model by .npu() before the first step, and make one optimizer for each device"
                )
            if param.dtype not in _DTYPES:
                raise TypeError(f"{name} takes parameters of {', '.join(map(str, _DTYPES))}, not {param.dtype}")
        overlap = first_overlap(active)
        if overlap:
            raise RuntimeError(
                f"{name} cannot combine parameters that share memory, but numbers {overlap[0]} and {overlap[1]} of those with a "
                "gradient do: use one torch.nn.Parameter in both places"
            )

    def _flat(self, params: list[torch.Tensor]) -> Flat:
        """Flat tensors for these parameters: those of the last time, if the parameters are still in them."""
        old = self._kept.get(params[0].dtype)
        if old and _are(params, old.params):
            offset = old.param.data_ptr()
            for param in params:
                if not param.numel():
                    continue
                if param.data_ptr() != offset or not is_dense(param):
                    break
                offset += param.numel() * param.element_size()
            else:
                return old
        numel = sum(param.numel() for param in params)
        flat = torch.empty(numel, dtype=params[0].dtype, device=params[0].device)
        grads = torch.empty_like(flat)
        for param in params:
            if not is_dense(param):
                param.data = param.data.contiguous()
        return Flat(params, flat, grads)

    def _copy_grads(self, new: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]], flats: Iterable[Flat]) -> None:
        """Copies gradients into views of the flat ones: (parameter, gradient, view). The parameters then have the views."""
        ranges = [(flat.grad.data_ptr(), flat.grad.numel() * flat.grad.element_size()) for flat in flats]
        views, sources = [], []
        for _, grad, view in new:
            address = grad.data_ptr()
            if address == view.data_ptr() and grad.stride() == view.stride() and grad.dtype == view.dtype:
                continue
            # A gradient in the memory of another one would be written before it is read.
            inside = any(begin <= address < begin + size for begin, size in ranges)
            views.append(view)
            sources.append(grad.clone() if inside else grad)
        if views:
            torch._foreach_copy_(views, sources)
        for param, _, view in new:
            param.grad = view

    def _strided(self, grad: torch.Tensor) -> torch.Tensor:
        return grad if grad.layout == torch.strided else self._dense_grad(grad)

    def _steps_of(self, param: torch.Tensor) -> int:
        return int(self.state.get(param, {}).get("step", 0))

    def _in_order(self, tensors: dict[torch.dtype, torch.Tensor]) -> list[torch.Tensor | None]:
        return [tensors.get(dtype) for dtype in _DTYPES if dtype in _DTYPES[:2] or dtype in tensors]


def check(optimizer: str, **values: Any) -> None:
    """Raises ValueError for an option out of its range: betas are in [0, 1), the others are not negative."""
    for name, value in values.items():
        for number in value if name == "betas" else [value]:
            if not number >= 0 or (name in ("betas", "b1", "b2") and number >= 1):
                limits = "at least 0 and less than 1" if name in ("betas", "b1", "b2") else "not negative"
                raise ValueError(f"{optimizer}: {name} must be {limits}, not {value!r}")


def signed_grad(chunk: Chunk | Part, group: dict[str, Any]) -> torch.Tensor:
    """The gradient with its sign and weight decay, as torch.optim computes it. The chunk's own one is not changed."""
    grad = chunk.grad.neg() if group.get("maximize", False) else chunk.grad
    return grad.add(chunk.param, alpha=group["weight_decay"]) if group["weight_decay"] else grad


def tensor_step(step: int) -> torch.Tensor:
    """The value of "step" in the states of torch.optim."""
    return torch.tensor(float(step))


def _with_own_step(state: dict[str, Any]) -> dict[str, Any]:
    step = state.get("step")
    return {**state, "step": step.clone()} if isinstance(step, torch.Tensor) else {**state}


def _are(one: Collection[Any], other: Collection[Any]) -> bool:
    """Whether both hold the same objects in the same order."""
    return len(one) == len(other) and all(map(operator.is_, one, other))


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype == torch.float64 else torch.float32


def _widest(tensors: list[torch.Tensor]) -> torch.dtype:
    return torch.float64 if any(tensor.dtype == torch.float64 for tensor in tensors) else torch.float32
