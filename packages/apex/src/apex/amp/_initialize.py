"""What amp.initialize does to models, and how all of it is undone."""

from __future__ import annotations

import functools
import weakref
from typing import Any

import torch

from ._amp_state import _amp_state, is_distributed, warn_or_err
from ._process_optimizer import LOW_PRECISION, process_optimizer
from .amp import REGISTERED
from .casts import Casts
from .model_casts import CastForward, MastersFromState, Replicate, StateInFloat32, keeps_float32
from .properties import Properties


def initialize_models(models: Any, optimizers: Any, properties: Properties, cast_model_outputs: torch.dtype | None) -> Any:
    """Checks everything first. A refusal, or an exception later, leaves models and optimizers as they were."""
    model_list, optimizer_list = _as_list(models, torch.nn.Module, "model"), _optimizers(optimizers)
    for model in model_list:
        _check_model(model)
    for optimizer in optimizer_list:
        if hasattr(optimizer, "_amp_stash"):
            raise RuntimeError(
                f"this {type(optimizer).__name__} passed through amp.initialize before: call amp.initialize once for each "
                "optimizer, or amp.uninitialize() first"
            )
    _check_devices(model_list)

    try:
        _change(model_list, optimizer_list, properties, cast_model_outputs)
    except BaseException:
        _undo([each for each in optimizer_list if hasattr(each, "_amp_stash")], model_list)
        raise
    if optimizers is None:
        return models
    return models, optimizers


def _change(models: list[Any], optimizers: list[Any], properties: Properties, outputs: torch.dtype | None) -> None:
    for model in models:
        _amp_state.undo[model] = []
        if properties.combine_ddp and is_distributed():
            _take_from_rank_0(model)
    if properties.cast_model_type is not None:
        if properties.master_weights:
            _make_masters(models, optimizers, properties)
        for model in models:
            _cast_model(model, properties, outputs)
    elif outputs is not None:
        for model in models:
            _patch_forward(model, None, outputs)
    for optimizer in optimizers:
        process_optimizer(optimizer, properties)
        _amp_state.optimizers.add(optimizer)
        if properties.cast_model_type is not None:
            # Casts the states that the optimizer may have already.
            optimizer.load_state_dict(optimizer.state_dict())
    if properties.patch_torch_functions:
        _start_casts(models, properties)


def _undo(optimizers: list[Any], models: list[Any]) -> None:
    for optimizer in optimizers:
        for step in reversed(optimizer._amp_stash.undo):
            step()
        _amp_state.optimizers.discard(optimizer)
    for model in models:
        for step in reversed(_amp_state.undo.pop(model, [])):
            step()
    for model in models:
        for param in model.parameters():
            _amp_state.masters.pop(param, None)


def uninitialize_all() -> None:
    """Undoes all calls of amp.initialize."""
    _undo(list(_amp_state.optimizers), list(_amp_state.undo.keys()))
    if _amp_state.handle is not None:
        _amp_state.handle.close()
    hard_override, allow = _amp_state.hard_override, _amp_state.allow_incoming_model_not_fp32
    _amp_state.__dict__.clear()
    _amp_state.__init__()  # type: ignore[misc]
    _amp_state.hard_override, _amp_state.allow_incoming_model_not_fp32 = hard_override, allow


def _as_list(value: Any, kind: type, word: str) -> list[Any]:
    items = list(value) if isinstance(value, (list, tuple)) else [value]
    for item in items:
        if not isinstance(item, kind):
            raise TypeError(f"amp.initialize takes a {word} or a list of {word}s, not {type(item).__name__}")
    return items


def _optimizers(optimizers: Any) -> list[Any]:
    from ..fp16_utils import FP16_Optimizer
    from ..parallel import LARC

    if optimizers is None:
        return []
    items = list(optimizers) if isinstance(optimizers, (list, tuple)) else [optimizers]
    for item in items:
        if isinstance(item, FP16_Optimizer):
            raise RuntimeError("amp.initialize takes the optimizer itself, not apex.fp16_utils.FP16_Optimizer around it")
        if not isinstance(item, (torch.optim.Optimizer, LARC)):
            raise TypeError(f"amp.initialize takes an optimizer or a list of optimizers, not {type(item).__name__}")
    return items


def _check_model(model: torch.nn.Module) -> None:
    from ..parallel import DistributedDataParallel

    parallel = (torch.nn.parallel.DistributedDataParallel, torch.nn.DataParallel, DistributedDataParallel)
    if isinstance(model, parallel):
        raise RuntimeError(
            f"amp.initialize got a model inside {type(model).__name__}: call amp.initialize first, then wrap the model it returns"
        )
    if model in _amp_state.undo:
        raise RuntimeError(
            f"this {type(model).__name__} passed through amp.initialize before: call amp.initialize once for a model, "
            "with all optimizers, or amp.uninitialize() first"
        )
    if _amp_state.allow_incoming_model_not_fp32:
        return
    for kind, tensors in (("parameter", model.named_parameters()), ("buffer", model.named_buffers())):
        for name, tensor in tensors:
            if tensor.dtype in LOW_PRECISION:
                warn_or_err(
                    f"amp.initialize: {kind} {name} is {tensor.dtype}, but it must be float32: leave out model.half(), because "
                    "amp casts the model itself"
                )


def _check_devices(models: list[torch.nn.Module]) -> None:
    found: dict[str, str] = {}
    for model in models:
        for name, tensor in (*model.named_parameters(), *model.named_buffers()):
            if tensor.is_floating_point():
                found.setdefault(tensor.device.type, name)
    if "cpu" in found and len(found) > 1:
        other = next(kind for kind in found if kind != "cpu")
        raise RuntimeError(
            f"amp.initialize: {found['cpu']} is on the CPU and {found[other]} is on {other}: move all models by "
            f"model.to('{other}') before amp.initialize"
        )


@torch.no_grad()
def _take_from_rank_0(model: torch.nn.Module) -> None:
    for tensor in (*model.parameters(), *model.buffers()):
        torch.distributed.broadcast(tensor, 0)


def _make_masters(models: list[torch.nn.Module], optimizers: list[Any], properties: Properties) -> None:
    """Keeps the float32 values of the parameters that the model casts and an optimizer updates."""
    updated = {id(param) for optimizer in optimizers for group in optimizer.param_groups for param in group["params"]}
    for model in models:
        for module in model.modules():
            if keeps_float32(module, properties.keep_batchnorm_fp32):
                continue
            for param in module.parameters(recurse=False):
                if id(param) in updated and param.dtype == torch.float32 and param.requires_grad:
                    _amp_state.masters[param] = torch.nn.Parameter(param.detach())


def _cast_model(model: torch.nn.Module, properties: Properties, outputs: torch.dtype | None) -> None:
    dtype = properties.cast_model_type
    undo = _amp_state.undo[model]
    for module in model.modules():
        if keeps_float32(module, properties.keep_batchnorm_fp32):
            continue
        if isinstance(module, torch.nn.RNNBase):
            undo.append(functools.partial(_call, weakref.WeakMethod(module.flatten_parameters)))
        own = [*module.parameters(recurse=False), *module.buffers(recurse=False)]
        for tensor in own:
            if tensor.is_floating_point() and tensor.dtype != dtype:
                undo.append(functools.partial(_cast_back, tensor, tensor.dtype))
                tensor.data = tensor.data.to(dtype)
                if tensor.grad is not None:
                    tensor.grad = None if _amp_state.masters.get(tensor) is not None else tensor.grad.to(dtype)
        if isinstance(module, torch.nn.RNNBase):
            module.flatten_parameters()
    if dtype in LOW_PRECISION:
        for module in model.modules():
            undo.append(module._register_state_dict_hook(StateInFloat32()).remove)
            undo.append(module.register_load_state_dict_pre_hook(MastersFromState()).remove)
    _patch_forward(model, dtype, outputs or torch.float32)


def _cast_back(tensor: torch.Tensor, dtype: torch.dtype) -> None:
    master = _amp_state.masters.get(tensor)
    tensor.grad = None
    tensor.data = tensor.data.to(dtype) if master is None else master.detach().to(dtype)


def _patch_forward(model: torch.nn.Module, inputs: torch.dtype | None, outputs: torch.dtype) -> None:
    model.forward = CastForward(model, vars(model).get("forward"), inputs, outputs)
    model._replicate_for_data_parallel = Replicate(model)
    _amp_state.undo[model].append(functools.partial(_restore_forward, weakref.ref(model)))


def _restore_forward(model_ref: Any) -> None:
    model = model_ref()
    patched = vars(model).get("forward") if model is not None else None
    if isinstance(patched, CastForward):
        del model.forward, model._replicate_for_data_parallel
        if patched.own is not None:
            model.forward = patched.own


def _call(method_ref: Any) -> None:
    method = method_ref()
    if method is not None:
        method()


def _start_casts(models: list[torch.nn.Module], properties: Properties) -> None:
    tensors = [tensor for model in models for tensor in (*model.parameters(), *model.buffers())]
    devices = {tensor.device.type for tensor in tensors} - {"meta"}
    devices = devices or {"npu" if hasattr(torch, "npu") else "cpu"}
    if _amp_state.handle is None:
        _amp_state.handle = Casts(devices, REGISTERED, bool(properties.user_cast_preferred))
    else:
        _amp_state.handle.add_devices(devices)
    for model in models:
        _amp_state.undo[model] += _amp_state.handle.watch(model)
