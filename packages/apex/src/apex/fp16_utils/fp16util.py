"""Models in float16 and their float32 master parameters, by hand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors

clip_grad_norm = torch.nn.utils.clip_grad_norm_


class tofp16(torch.nn.Module):
    """Casts its input to float16."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return input.half()


class FP16Model(torch.nn.Module):
    """A network in float16, except for its batch norms. It casts its inputs."""

    def __init__(self, network: torch.nn.Module) -> None:
        super().__init__()
        self.network = convert_network(network, dtype=torch.half)

    def forward(self, *inputs: Any) -> Any:
        return self.network(*(each.half() for each in inputs))


def BN_convert_float(module: torch.nn.Module) -> torch.nn.Module:
    """Casts the batch norms with weights to float32."""
    for each in module.modules():
        if isinstance(each, torch.nn.modules.batchnorm._BatchNorm) and each.affine:
            each.float()
    return module


def network_to_half(network: torch.nn.Module) -> torch.nn.Module:
    """The network in float16 with float32 batch norms, behind a cast of its input."""
    return torch.nn.Sequential(tofp16(), BN_convert_float(network.half()))


def convert_module(module: torch.nn.Module, dtype: torch.dtype) -> None:
    """Casts the parameters and buffers of this module alone, not of its children."""
    for tensor in (*module.parameters(recurse=False), *module.buffers(recurse=False)):
        if tensor.is_floating_point():
            tensor.data = tensor.data.to(dtype)
            if tensor.grad is not None:
                tensor.grad = tensor.grad.to(dtype)


def convert_network(network: torch.nn.Module, dtype: torch.dtype) -> torch.nn.Module:
    """Casts a network, except for its batch norms with weights."""
    for module in network.modules():
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm) and module.affine:
            continue
        convert_module(module, dtype)
        if isinstance(module, torch.nn.RNNBase):
            module.flatten_parameters()
    return network


def prep_param_lists(model: torch.nn.Module, flat_master: bool = False) -> tuple[list[Any], list[Any]]:
    """The parameters of the model, and float32 masters of them. flat_master: one flat master for all; they need one dtype."""
    model_params = [param for param in model.parameters() if param.requires_grad]
    if flat_master:
        if len({param.dtype for param in model_params}) > 1:
            raise ValueError("flat_master=True needs parameters of one dtype: leave it out for a model with float32 batch norms")
        master = torch.nn.Parameter(_flatten_dense_tensors([param.detach() for param in model_params]).float())
        master.grad = torch.zeros_like(master)
        return model_params, [master]
    return model_params, [torch.nn.Parameter(param.detach().clone().float()) for param in model_params]


def model_grads_to_master_grads(
    model_params: Sequence[torch.Tensor], master_params: Sequence[torch.Tensor], flat_master: bool = False
) -> None:
    """Copies gradients of the model to the masters."""
    with torch.no_grad():
        if flat_master:
            master_params[0].grad.copy_(_flatten_dense_tensors([param.grad for param in model_params]))
            return
        for model, master in zip(model_params, master_params, strict=True):
            master.grad = None if model.grad is None else model.grad.to(master.dtype, copy=True)


def master_params_to_model_params(
    model_params: Sequence[torch.Tensor], master_params: Sequence[torch.Tensor], flat_master: bool = False
) -> None:
    """Copies values of the masters to the model."""
    with torch.no_grad():
        masters: Iterable[torch.Tensor] = master_params
        if flat_master:
            masters = _unflatten_dense_tensors(master_params[0].data, list(model_params))
        for model, master in zip(model_params, masters, strict=True):
            model.copy_(master)


def to_python_float(t: torch.Tensor) -> float:
    return t.item() if hasattr(t, "item") else t[0]
