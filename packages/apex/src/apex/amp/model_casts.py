"""Models in low precision: inputs and outputs are cast, and state dictionaries hold float32."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import torch

from ._amp_state import _amp_state


def keeps_float32(module: torch.nn.Module, keep_batchnorm: bool | None) -> bool:
    """Whether the module is a batch norm with weights that stays in float32."""
    return bool(keep_batchnorm) and isinstance(module, torch.nn.modules.batchnorm._BatchNorm) and module.affine


class CastForward:
    """The forward of a model: casts floating inputs and outputs. An object, so that the model can be copied and pickled."""

    def __init__(
        self, model: torch.nn.Module, own: Callable[..., Any] | None, inputs: torch.dtype | None, outputs: torch.dtype
    ) -> None:
        """own: a forward that the program had put into the model."""
        self.model, self.own, self.inputs, self.outputs = model, own, inputs, outputs

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        forward = self.own or type(self.model).forward.__get__(self.model)
        if self.inputs is not None:
            args, kwargs = cast_batch(args, self.inputs), cast_batch(kwargs, self.inputs)
        return cast_batch(forward(*args, **kwargs), self.outputs)


class Replicate:
    """The _replicate_for_data_parallel of a model: a replica of DataParallel gets a CastForward of its own."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.model = model

    def __call__(self) -> torch.nn.Module:
        replica = type(self.model)._replicate_for_data_parallel(self.model)
        patched = vars(replica).get("forward")
        if isinstance(patched, CastForward):
            replica.forward = CastForward(replica, patched.own, patched.inputs, patched.outputs)
        return replica


def cast_batch(value: Any, dtype: torch.dtype) -> Any:
    """Casts the floating tensors of a batch: in lists, tuples, dictionaries, and objects that have a method `to`."""
    if isinstance(value, torch.Tensor):
        return value.to(dtype) if value.is_floating_point() else value
    if isinstance(value, (str, bytes, torch.Size, torch.nn.Module)):
        return value
    if hasattr(value, "to"):
        return value.to(dtype)
    if isinstance(value, Mapping):
        return _cast_mapping(value, dtype)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(cast_batch(each, dtype) for each in value))
    if isinstance(value, (list, tuple, set)):
        return type(value)(cast_batch(each, dtype) for each in value)
    return value


def _cast_mapping(value: Mapping[Any, Any], dtype: torch.dtype) -> Any:
    items = {key: cast_batch(each, dtype) for key, each in value.items()}
    if type(value) is dict:
        return items
    try:
        result = copy.copy(value)
        for key, each in items.items():
            result[key] = each  # type: ignore[index]
        return result
    except (TypeError, AttributeError):
        return items


class StateInFloat32:
    """A state_dict hook: parameters in low precision appear as their masters, other tensors as float32."""

    def __call__(self, module: torch.nn.Module, state_dict: dict[str, Any], prefix: str, local_metadata: Any) -> None:
        for name, tensor in (*module._parameters.items(), *module._buffers.items()):
            key = prefix + name
            saved = state_dict.get(key)
            if tensor is None or not isinstance(saved, torch.Tensor) or saved.dtype not in (torch.float16, torch.bfloat16):
                continue
            master = _amp_state.masters.get(tensor)
            state_dict[key] = saved.float() if master is None else master.detach()


class MastersFromState:
    """A load_state_dict pre-hook: the masters get the float32 values that the model's parameters are rounded from."""

    def __call__(self, module: torch.nn.Module, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        for name, param in module._parameters.items():
            master = None if param is None else _amp_state.masters.get(param)
            value = state_dict.get(prefix + name)
            if master is not None and isinstance(value, torch.Tensor) and value.shape == master.shape:
                with torch.no_grad():
                    master.copy_(value)
