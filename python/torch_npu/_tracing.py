"""Prepares torch.compile, torch.export and other tracers for npu, without importing them."""

from __future__ import annotations

import contextlib
import importlib
import sys
from contextlib import AbstractContextManager
from typing import Any

import torch

from ._import_hook import on_import


def register() -> None:
    _decompose_batch_norm()
    on_import("torch._dynamo", lambda: importlib.import_module("torch_npu._dynamo"), within=with_names_of_cuda)
    on_import("torch._inductor.compile_fx", _refuse_inductor)


def with_names_of_cuda() -> AbstractContextManager[Any]:
    """Restores the names that transfer_to_npu replaces, while Dynamo registers the functions of torch.cuda."""
    transfer = sys.modules.get("torch_npu.contrib.transfer_to_npu")
    return contextlib.nullcontext() if transfer is None else transfer.suspended()


def _decompose_batch_norm() -> None:
    # The Python dispatcher prefers the plugin's autograd kernel to the decomposition of all autograd kernels, then continues
    # without a device key and finds two candidates. A decomposition for AutogradPrivateUse1 removes the ambiguity.
    from torch._decomp.decompositions import native_batch_norm_decomposition as decomposition

    torch.ops.aten.native_batch_norm.default.py_impl(torch._C.DispatchKey.AutogradPrivateUse1)(decomposition)


def _refuse_inductor() -> None:
    import torch._inductor.compile_fx as inductor

    from ._dynamo import refuse_inductor

    inductor.compile_fx = refuse_inductor(inductor.compile_fx)
