"""What the tracers of torch, above all torch.compile and torch.export, have to know of npu, without importing one of them."""

import contextlib
import importlib
import sys

import torch

from ._on_import import on_import


def register():
    _decompose_batch_norm()
    on_import("torch._dynamo", lambda: importlib.import_module("torch_npu._dynamo"), within=_with_cuda_as_it_was)
    on_import("torch._inductor.compile_fx", _refuse_inductor)


def _with_cuda_as_it_was():
    """Dynamo notes which functions torch.cuda has. It is not to take those of torch.npu for them."""
    transfer = sys.modules.get("torch_npu.contrib.transfer_to_npu")
    return contextlib.nullcontext() if transfer is None else transfer.suspended()


def _decompose_batch_norm():
    # Python's dispatcher prefers the plugin's own autograd kernel to a decomposition for all autograd kernels, but goes on from
    # it as if no device were known, and then has two ways to choose from.
    from torch._decomp.decompositions import native_batch_norm_decomposition as decomposition

    torch.ops.aten.native_batch_norm.default.py_impl(torch._C.DispatchKey.AutogradPrivateUse1)(decomposition)


def _refuse_inductor():
    import torch._inductor.compile_fx as inductor

    from ._dynamo import refuse_inductor

    inductor.compile_fx = refuse_inductor(inductor.compile_fx)
