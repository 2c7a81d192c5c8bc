"""Checks of one operator beyond plain calls: arguments that are views or lazy copies, and the transforms of autograd.

Each check is a generator like those of checks.py: sentences, one per difference from the CPU.
"""

import torch
from torch.autograd import forward_ad
from torch.utils import _pytree

from .checks import SEED, compare_call, compare_views, samples_of, upstream_gradients
from .compare import Tolerance
from .layouts import Relaid


def is_float(value):
    return isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())


def mapped(placement, function, op):
    """The operator, called with function(tensor) instead of each tensor."""
    input, args, kwargs = _pytree.tree_map_only(
        torch.Tensor, function, (placement.input, tuple(placement.args), dict(placement.kwargs))
    )
    with placement.factories():
        return op(input, *args, **kwargs)


def conj(info, dtype, count):
    """Arguments that are conjugated views."""
    tolerance = Tolerance.of(info)

    def view(tensor):
        return tensor.conj() if tensor.is_complex() and not tensor.is_sparse else tensor

    for sample in samples_of(info, dtype, count):
        conjugated = Relaid(sample, lambda t: t.conj().resolve_conj())
        if any(isinstance(t, torch.Tensor) and t.is_complex() for t in _pytree.tree_leaves((sample.input, *sample.args))):
            yield conjugated, compare_views(conjugated, lambda p, f: mapped(p, f, info.op), view, tolerance)


def neg(info, dtype, count):
    """Arguments that are negated views."""
    tolerance = Tolerance.of(info)

    def view(tensor):
        return torch._neg_view(tensor) if is_float(tensor) and tensor.layout == torch.strided else tensor

    for sample in samples_of(info, dtype, count):
        negated = Relaid(sample, lambda t: -t if is_float(t) else t)
        yield negated, compare_views(negated, lambda p, f: mapped(p, f, info.op), view, tolerance)


def cow(info, dtype, count):
    """Arguments that are lazy copies: reading keeps them lazy, and writing one changes no other."""
    tolerance = Tolerance.of(info)
    lazy_on_cpu = []

    def run(placement, op):
        clones = []

        def clone(tensor):
            if tensor.layout != torch.strided or type(tensor) is not torch.Tensor or tensor.is_nested or tensor.is_quantized:
                return tensor
            clones.append(torch._lazy_clone(tensor.detach()))
            return clones[-1]

        result = mapped(placement, clone, op)
        lazy = [torch._C._is_cow_tensor(one) for one in clones]
        if placement.device == "cpu":
            lazy_on_cpu[:] = lazy
        # The CPU copies some tensors that it only reads, or that are empty. On npu they may stay lazy.
        return [result, [one and other for one, other in zip(lazy, lazy_on_cpu, strict=True)]]

    for sample in samples_of(info, dtype, count):
        yield sample, compare_call(sample, lambda p: run(p, info.op), tolerance)
        if info.get_inplace() is not None:
            yield sample, compare_call(sample, lambda p: run(p, info.get_inplace()), tolerance)


def jvp(info, dtype, count):
    """Derivatives along a direction, by forward-mode differentiation."""
    tolerance = Tolerance.of(info)

    def run(placement):
        generator = torch.Generator().manual_seed(SEED)

        def dual(tensor):
            if not tensor.requires_grad:
                return tensor
            tangent = torch.randn(tensor.shape, generator=generator, dtype=tensor.dtype).to(tensor.device)
            return forward_ad.make_dual(tensor.detach(), tangent)

        with forward_ad.dual_level():
            results = _pytree.tree_leaves(mapped(placement, dual, info.op))
            return [tuple(forward_ad.unpack_dual(t)) for t in results if is_float(t)]

    for sample in samples_of(info, dtype, count, requires_grad=True):
        yield sample, compare_call(sample, run, tolerance)


def gradgrad(info, dtype, count):
    """Gradients of gradients."""
    tolerance = Tolerance.of(info)

    def run(placement, process):
        result = process(placement.call(info.op))
        outputs = [t for t in _pytree.tree_leaves(result) if isinstance(t, torch.Tensor) and t.requires_grad]
        inputs = placement.differentiable()
        if not outputs or not inputs:
            return len(outputs)
        directions = [t.requires_grad_() for t in upstream_gradients(outputs)]
        first = torch.autograd.grad(outputs, inputs, directions, allow_unused=True, create_graph=True)
        twice = [t for t in first if t is not None and t.requires_grad]
        if not twice:
            return first
        return torch.autograd.grad(twice, [*inputs, *directions], upstream_gradients(twice), allow_unused=True)

    for sample in samples_of(info, dtype, count, requires_grad=True):
        yield sample, compare_call(sample, lambda p, s=sample: run(p, s.output_process_fn_grad), tolerance)


def vmap(info, dtype, count):
    """The operator over a batch of arguments; each tensor of floating point has another value in each element of the batch."""
    tolerance = Tolerance.of(info)

    def run(placement):
        leaves, tree = _pytree.tree_flatten((placement.input, tuple(placement.args), dict(placement.kwargs)))
        batched = [isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided for leaf in leaves]
        stacks = [
            torch.stack([leaf, leaf / 2 if is_float(leaf) else leaf]) for leaf, take in zip(leaves, batched, strict=True) if take
        ]

        def one(*parts):
            parts = iter(parts)
            input, args, kwargs = _pytree.tree_unflatten(
                [next(parts) if take else leaf for leaf, take in zip(leaves, batched, strict=True)], tree
            )
            results = _pytree.tree_leaves(info.op(input, *args, **kwargs))
            return tuple(t for t in results if isinstance(t, torch.Tensor))

        return torch.vmap(one, randomness="different")(*stacks)

    for sample in samples_of(info, dtype, count):
        if any(isinstance(leaf, torch.Tensor) for leaf in _pytree.tree_leaves((sample.input, *sample.args))):
            yield sample, compare_call(sample, run, tolerance)
