"""What amp.initialize does to an optimizer: master weights, gradients divided by the scale, skipped steps."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from types import MethodType
from typing import Any

import torch

from ._amp_state import _amp_state, master_params, maybe_print
from .combined import CombinedGrads
from .properties import Properties
from .scaler import LossScaler

LOW_PRECISION = (torch.float16, torch.bfloat16)


class AmpOptimizerState:
    """The part of amp in an optimizer: optimizer._amp_stash.

    all_fp16_params: model parameters in low precision. all_fp32_from_fp16_params: their masters, in the same order; without
    master weights this is empty. all_fp32_from_fp32_params: the other parameters, which are their own masters. frozen: those
    that need no gradient now. One in low precision gets its master when it needs a gradient, because until then the program
    may change its values."""

    def __init__(self, optimizer: torch.optim.Optimizer, properties: Properties) -> None:
        self.master_weights = bool(properties.master_weights)
        self.casts = bool(properties.patch_torch_functions)
        self.combine_grad, self.combine_ddp = bool(properties.combine_grad), bool(properties.combine_ddp)
        self.check_combined, self.replicas = bool(properties.check_combined_tensors), properties.ddp_replica_count
        self.undo: list[Callable[[], Any]] = []
        self.params_have_scaled_gradients = False
        self.overflowed = False  # at a backward pass with delay_unscale
        self.skipped_by: tuple[int, LossScaler] | None = None  # the next step is skipped, for this loss
        self.fp16_groups: list[list[torch.Tensor]] = []
        self.fp32_from_fp16_groups: list[list[torch.Tensor]] = []
        self.fp32_from_fp32_groups: list[list[torch.Tensor]] = []
        self.all_fp16_params: list[torch.Tensor] = []
        self.all_fp32_from_fp16_params: list[torch.Tensor] = []
        self.all_fp32_from_fp32_params: list[torch.Tensor] = []
        self.frozen: list[torch.Tensor] = []
        self.is_in_block = False  # of scale_loss
        self.stashed: list[tuple[torch.Tensor, torch.Tensor | None]] = []
        self.combined: list[CombinedGrads] | None = None

    @property
    def all_fp32_params(self) -> list[torch.Tensor]:
        return self.all_fp32_from_fp32_params

    def params(self) -> list[torch.Tensor]:
        """The parameters that backward passes give gradients."""
        return self.all_fp16_params + self.all_fp32_from_fp32_params

    @property
    def needs_unscale(self) -> bool:
        """Whether gradients are copied or reduced even at the scale 1."""
        return bool(self.all_fp32_from_fp16_params) or self.combine_ddp

    @property
    def already_patched(self) -> bool:
        return self.skipped_by is not None

    def add_group(self, group: dict[str, Any], state: dict[torch.Tensor, Any]) -> None:
        """Sorts the parameters of a group, and puts masters in the place of those in low precision."""
        low: list[torch.Tensor] = []
        masters: list[torch.Tensor] = []
        wide: list[torch.Tensor] = []
        for index, param in enumerate(group["params"]):
            if param.dtype not in LOW_PRECISION:
                wide.append(param)
            elif not self.master_weights:
                low.append(param)
            elif param.requires_grad:
                low.append(param)
                masters.append(_put_master(group, index, state))
            if not param.requires_grad:
                self.frozen.append(param)
        self.fp16_groups.append(low)
        self.fp32_from_fp16_groups.append(masters)
        self.fp32_from_fp32_groups.append(wide)
        self._list_params()

    def thaw(self, optimizer: torch.optim.Optimizer) -> None:
        """Takes in the parameters that were frozen and need gradients now."""
        if not any(param.requires_grad for param in self.frozen):
            return
        thawed = {id(param) for param in self.frozen if param.requires_grad}
        self.frozen = [param for param in self.frozen if not param.requires_grad]
        for number, group in enumerate(optimizer.param_groups):
            for index, param in enumerate(group["params"]):
                if id(param) in thawed and param.dtype in LOW_PRECISION and self.master_weights:
                    self.fp16_groups[number].append(param)
                    self.fp32_from_fp16_groups[number].append(_put_master(group, index, optimizer.state))
        self._list_params()

    def combine(self) -> list[CombinedGrads]:
        """The combined gradients; none without combine_grad."""
        if self.combined is None:
            self.combined = []
            if self.combine_grad:
                masters = self.all_fp32_from_fp16_params if self.master_weights else None
                self.combined += CombinedGrads.of(self.all_fp16_params, masters, self.combine_ddp)
                self.combined += CombinedGrads.of(self.all_fp32_from_fp32_params, None, self.combine_ddp)
            members = {id(param) for each in self.combined for param in each.params}
            self.low_pairs = [
                (low, master)
                for low, master in zip(self.all_fp16_params, self.all_fp32_from_fp16_params, strict=False)
                if id(low) not in members
            ]
            own = self.all_fp32_from_fp32_params + ([] if self.master_weights else self.all_fp16_params)
            self.own_masters = [param for param in own if id(param) not in members]
        return self.combined

    def remove_group(self, index: int) -> None:
        """Forgets the groups from this one on."""
        for groups in (self.fp16_groups, self.fp32_from_fp16_groups, self.fp32_from_fp32_groups):
            del groups[index:]
        self._list_params()

    def _list_params(self) -> None:
        self.all_fp16_params = [param for group in self.fp16_groups for param in group]
        self.all_fp32_from_fp16_params = [param for group in self.fp32_from_fp16_groups for param in group]
        self.all_fp32_from_fp32_params = [param for group in self.fp32_from_fp32_groups for param in group]
        self.combined = None


def _put_master(group: dict[str, Any], index: int, state: dict[torch.Tensor, Any]) -> torch.Tensor:
    """Puts the master of a parameter in its place in the group. Returns the master."""
    param = group["params"][index]
    master = _amp_state.masters.get(param)
    if master is None:
        master = _amp_state.masters[param] = torch.nn.Parameter(param.detach().float())
    group["params"][index] = master
    if param in state:
        # A checkpoint that was loaded before has states in the dtype of the parameter.
        state[master] = {
            name: value.float() if isinstance(value, torch.Tensor) and value.dtype in LOW_PRECISION else value
            for name, value in state.pop(param).items()
        }
    return master


def process_optimizer(optimizer: torch.optim.Optimizer, properties: Properties) -> None:
    """Adds amp to an optimizer whose model is in its final dtype. optimizer._amp_stash.undo undoes it."""
    stash = AmpOptimizerState(optimizer, properties)
    for group in optimizer.param_groups:
        stash.add_group(group, optimizer.state)
    optimizer._amp_stash = stash
    undo = stash.undo = [functools.partial(_remove_masters, optimizer, stash)]
    for name, function in (("step", _step), ("zero_grad", _zero_grad), ("add_param_group", _add_param_group)):
        undo.append(_patch_method(optimizer, name, function))
    for name, method in (
        ("get_optimizer_combined_params", _no_combined_params),
        ("get_optimizer_combined_grads", _get_optimizer_combined_grads),
        ("get_model_combined_params", _no_combined_params),
        ("get_model_combined_grads", _get_model_combined_grads),
        ("clip_optimizer_grad_norm_fused", _clip_grad_norm),
    ):
        if not hasattr(optimizer, name):
            setattr(optimizer, name, MethodType(method, optimizer))
            undo.append(functools.partial(vars(optimizer).pop, name, None))


def _patch_method(optimizer: torch.optim.Optimizer, name: str, function: Callable[..., Any]) -> Callable[[], None]:
    """Replaces optimizer.name by function(optimizer, the old method, ...)."""
    before = vars(optimizer).get(name)
    original = getattr(optimizer, name)

    @functools.wraps(original)
    def method(self: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> Any:
        # A scheduler that wraps this method keeps it after amp.uninitialize.
        if "_amp_stash" not in vars(self):
            return original(*args, **kwargs)
        return function(self, original, *args, **kwargs)

    bound = MethodType(method, optimizer)
    setattr(optimizer, name, bound)

    def undo() -> None:
        if vars(optimizer).get(name) is not bound:
            return
        if before is None:
            delattr(optimizer, name)
        else:
            setattr(optimizer, name, before)

    return undo


def _remove_masters(optimizer: torch.optim.Optimizer, stash: AmpOptimizerState) -> None:
    """Puts the model's parameters back. Their values become those of the masters once the model is back in its old dtype."""
    models = {id(master): low for low, master in zip(stash.all_fp16_params, stash.all_fp32_from_fp16_params, strict=False)}
    for group in optimizer.param_groups:
        for index, param in enumerate(group["params"]):
            if id(param) not in models:
                continue
            group["params"][index] = models[id(param)]
            if param in optimizer.state:
                optimizer.state[models[id(param)]] = optimizer.state.pop(param)
    if "_chunks" in vars(optimizer):
        optimizer._chunks = None
    del optimizer._amp_stash


def prepare_backward(optimizer: torch.optim.Optimizer) -> None:
    """Sets the gradients aside, so that the backward pass gives the new ones alone."""
    stash = optimizer._amp_stash
    stash.thaw(optimizer)
    if stash.params_have_scaled_gradients:
        return
    stash.overflowed = False
    for each in stash.combine():
        each.prepare()
    for param, _ in stash.low_pairs:
        param.grad = None
    # A view may be in a buffer that the backward pass writes to: a bucket of DistributedDataParallel.
    stash.stashed = [(param, _own_memory(param.grad)) for param in stash.own_masters]
    for param, _ in stash.stashed:
        param.grad = None


def _own_memory(grad: torch.Tensor | None) -> torch.Tensor | None:
    return grad.clone() if grad is not None and grad._is_view() else grad


def abort_backward(optimizer: torch.optim.Optimizer) -> None:
    """Puts the gradients back that prepare_backward set aside. What the backward pass left is dropped."""
    stash = optimizer._amp_stash
    for each in stash.combine():
        each.abort()
    for param in (*(low for low, _ in stash.low_pairs), *stash.own_masters):
        param.grad = None
    for param, grad in stash.stashed:
        param.grad = grad
    stash.stashed = []
    stash.params_have_scaled_gradients = stash.overflowed = False


@torch.no_grad()
def post_backward(optimizer: torch.optim.Optimizer, scaler: LossScaler) -> None:
    """Divides the new gradients by the scale, and adds those that prepare_backward set aside."""
    stash = optimizer._amp_stash
    stash.params_have_scaled_gradients = False
    stashed, stash.stashed = stash.stashed, []
    for each in stash.combine():
        each.collect(stash.check_combined)
        if stash.combine_ddp:
            each.reduce(stash.replicas)
        unscaled = each.scaled()
        scaler.unscale_([unscaled])
        each.finish(unscaled)
    if not stash.low_pairs and not stash.own_masters:
        return
    _coalesce(stash)
    _post_masters(stash, scaler)
    scaler.unscale_([param.grad for param in stash.own_masters if param.grad is not None])
    _add_stashed(stashed)


def _post_masters(stash: AmpOptimizerState, scaler: LossScaler) -> None:
    """float32 copies of the model's gradients become, or are added to, those of the masters."""
    pairs = [(low.grad, master) for low, master in stash.low_pairs if low.grad is not None]
    new: list[torch.Tensor] = [torch.empty_like(master) for grad, master in pairs if not grad.is_sparse]
    if new:
        torch._foreach_copy_(new, [grad for grad, _ in pairs if not grad.is_sparse])
    dense = iter(new)
    copies = [grad.float() if grad.is_sparse else next(dense) for grad, _ in pairs]
    scaler.unscale_(copies)
    for copy, (_, master) in zip(copies, pairs, strict=True):
        master.grad = copy if master.grad is None else master.grad + copy


def _add_stashed(stashed: list[tuple[torch.Tensor, torch.Tensor | None]]) -> None:
    old = [(param, grad) for param, grad in stashed if grad is not None]
    for param, grad in old:
        if param.grad is None:
            param.grad = grad
        elif param.grad.is_sparse or grad.is_sparse:
            param.grad = param.grad + grad if grad.is_sparse else grad + param.grad
    both = [
        (param.grad, grad) for param, grad in old if param.grad is not grad and not param.grad.is_sparse and not grad.is_sparse
    ]
    if both:
        torch._foreach_add_([new for new, _ in both], [grad for _, grad in both])


def _coalesce(stash: AmpOptimizerState) -> None:
    """Adds up the values of repeated indices, in float32 where they are float16: they are divided once, and may overflow."""
    for param in (*(low for low, _ in stash.low_pairs), *stash.own_masters):
        if param.grad is not None and param.grad.is_sparse:
            dtype = param.grad.dtype
            wide = param.grad.float() if dtype == torch.float16 else param.grad
            param.grad = wide.coalesce().to(dtype)


def _step(optimizer: torch.optim.Optimizer, step: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """optimizer.step: skipped after an overflow; then the masters are copied to the model."""
    stash = optimizer._amp_stash
    closure = args[0] if args else kwargs.get("closure")
    if closure is not None:
        args, kwargs = (), {**kwargs, "closure": _Closure(optimizer, closure)}
    if stash.skipped_by is not None and closure is None:
        _skip(optimizer)
        return None
    stash.skipped_by = None
    handle = _amp_state.handle if stash.casts else None
    try:
        if handle is None:
            result = step(*args, **kwargs)
        else:
            with handle.switched(False):
                result = step(*args, **kwargs)
    except _OverflowInClosure as overflow:
        _skip(optimizer)
        return overflow.loss
    _copy_masters(stash)
    for param in stash.all_fp32_from_fp16_params:
        param.grad = None
    return result


class _OverflowInClosure(Exception):
    """The closure of a step met an overflow before the step changed anything."""

    def __init__(self, loss: Any) -> None:
        super().__init__("overflow")
        self.loss = loss


class _Closure:
    """The closure of optimizer.step: it sees the latest masters, and its overflow ends the step."""

    def __init__(self, optimizer: torch.optim.Optimizer, closure: Callable[[], Any]) -> None:
        self._optimizer, self._closure, self._calls = optimizer, closure, 0

    def __call__(self) -> Any:
        stash = self._optimizer._amp_stash
        if self._calls:
            _copy_masters(stash)
        self._calls += 1
        with _amp_state.handle.switched(True) if stash.casts and _amp_state.handle else contextlib.nullcontext():
            loss = self._closure()
        if stash.skipped_by is None:
            return loss
        if self._calls == 1:
            raise _OverflowInClosure(loss)
        raise RuntimeError(
            f"the closure of {type(self._optimizer).__name__}.step overflowed when it was called again in one step, and the step "
            "cannot be undone: pass a constant loss_scale to amp.initialize for optimizers that call the closure repeatedly"
        )


def _skip(optimizer: torch.optim.Optimizer) -> None:
    stash = optimizer._amp_stash
    loss_id, scaler = stash.skipped_by
    maybe_print(f"Gradient overflow.  Skipping step, loss scaler {loss_id} reducing loss scale to {scaler.loss_scale()}")
    for param in stash.all_fp32_from_fp16_params:
        param.grad = None
    stash.skipped_by = None
    optimizer._opt_called = True  # learning rate schedulers ask for it


@torch.no_grad()
def _copy_masters(stash: AmpOptimizerState) -> None:
    if stash.all_fp32_from_fp16_params:
        torch._foreach_copy_(stash.all_fp16_params, stash.all_fp32_from_fp16_params)


def _zero_grad(optimizer: torch.optim.Optimizer, zero_grad: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """optimizer.zero_grad: also for the gradients of the model's parameters."""
    stash = optimizer._amp_stash
    stash.params_have_scaled_gradients = stash.overflowed = False
    set_to_none = args[0] if args else kwargs.get("set_to_none", True)
    for param in stash.all_fp16_params:
        if set_to_none:
            param.grad = None
        elif param.grad is not None:
            param.grad = param.grad.detach()
            param.grad.zero_()
    for param in stash.all_fp32_from_fp16_params:
        param.grad = None
    return zero_grad(*args, **kwargs)


def _add_param_group(optimizer: torch.optim.Optimizer, add: Callable[..., Any], param_group: dict[str, Any]) -> None:
    """optimizer.add_param_group: with masters for parameters in low precision."""
    if not isinstance(param_group, dict):
        raise TypeError(f"param_group must be a dict, not {type(param_group).__name__}")
    group = dict(param_group)
    params = group.get("params", [])
    group["params"] = [params] if isinstance(params, torch.Tensor) else list(params)
    stash = optimizer._amp_stash
    before = len(optimizer.param_groups)
    stash.add_group(group, optimizer.state)
    try:
        add(group)
    except BaseException:
        stash.remove_group(before)
        raise


def _no_combined_params(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """Only the NpuFused optimizers combine parameters."""
    return []


def _get_optimizer_combined_grads(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """The flat tensors of combine_grad whose views are the gradients of the optimizer's parameters."""
    return [each.flat if each.masters is None else each.master_flat for each in optimizer._amp_stash.combine()]


def _get_model_combined_grads(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """The flat tensors of combine_grad whose views are the gradients of the model's parameters."""
    return [each.flat for each in optimizer._amp_stash.combine()]


def _clip_grad_norm(optimizer: torch.optim.Optimizer, max_norm: float, norm_type: float = 2) -> torch.Tensor:
    """Scales the gradients of the optimizer so that their common norm is at most max_norm. Returns the norm before."""
    return torch.nn.utils.clip_grad_norm_(list(master_params(optimizer)), max_norm, norm_type)
