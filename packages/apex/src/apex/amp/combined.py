"""Combined gradients: those of one dtype and device are views of one flat tensor, so that one operator unscales all of them.

Before a backward pass the flat tensor is zero, and every parameter has its view as gradient. Autograd adds to the views. A view
whose version did not change belongs to a parameter without a gradient, which gets None again. Gradients that something else
has replaced are copied into their views. So programs may set gradients to None or replace them at any time. A sparse gradient
becomes dense.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

import torch

from ._amp_state import is_distributed, maybe_print

_version = operator.attrgetter("_version")


class CombinedGrads:
    """The gradients of parameters of one dtype and device. masters: the parameters that get the unscaled gradients, in float32;
    None if the parameters do themselves."""

    def __init__(self, params: list[torch.Tensor], masters: list[torch.Tensor] | None, all_are_used: bool) -> None:
        """all_are_used: parameters without a gradient get zeros, because other ranks may have one."""
        self.params, self.masters, self.all_are_used = params, masters, all_are_used
        self.flat = _flat_like(params, params[0].dtype)
        self.views = _views(self.flat, params)
        self.master_flat = _flat_like([] if masters is None else masters, torch.float32)
        self.master_views = [] if masters is None else _views(self.master_flat, masters)
        self._versions: list[int] = []
        self._stash: torch.Tensor | None = None
        self._stashed: list[tuple[int, torch.Tensor]] = []
        self._had: list[bool] = []

    @staticmethod
    def of(params: Sequence[torch.Tensor], masters: Sequence[torch.Tensor] | None, all_are_used: bool) -> list[CombinedGrads]:
        """One for each device and dtype. Parameters with gaps in memory, and masters of another layout, are left out."""
        groups: dict[tuple[torch.device, torch.dtype], list[int]] = {}
        for index, param in enumerate(params):
            fits = masters is None or masters[index].stride() == param.stride()
            if param.requires_grad and param.numel() and fits and _is_dense(param):
                groups.setdefault((param.device, param.dtype), []).append(index)
        return [
            CombinedGrads([params[i] for i in members], None if masters is None else [masters[i] for i in members], all_are_used)
            for members in groups.values()
        ]

    @torch.no_grad()
    def prepare(self) -> None:
        """Sets the gradients aside and gives every parameter a view of zeros. Scaled gradients in low precision, whose masters
        have the sum, are dropped."""
        grads = [param.grad for param in self.params]
        self._had = [grad is not None for grad in grads]
        self._stash, self._stashed = None, []
        if self.masters is None and any(self._had):
            live = list(map(operator.is_, grads, self.views))
            self._stashed = [(i, grad) for i, grad in enumerate(grads) if grad is not None and not live[i]]
            if any(live):
                self._stash = self.flat.clone()
                for view, is_live in zip(_views(self._stash, self.params), live, strict=True):
                    if not is_live:
                        view.zero_()
        self.flat.zero_()
        for param, view in zip(self.params, self.views, strict=True):
            param.grad = view
        self._versions = list(map(_version, self.views))

    @torch.no_grad()
    def abort(self) -> None:
        """Undoes prepare after a backward pass that failed."""
        prepared, self._versions = bool(self._versions), []
        for param in self.params:
            param.grad = None
        self.flat.zero_()
        if prepared:
            self._restore(lambda index: self._had[index])

    @torch.no_grad()
    def collect(self, check: bool) -> None:
        """After the backward pass: brings all new gradients into the flat tensor. check: says so if some were replaced.

        After passes with delay_unscale there was no prepare: then all gradients are new."""
        prepared, self._versions = self._versions, []
        grads = [param.grad for param in self.params]
        self._used = list(map(operator.ne, map(_version, self.views), prepared)) if prepared else [True] * len(grads)
        self._had = self._had if prepared else [False] * len(grads)
        if not all(map(operator.is_, grads, self.views)):
            self._replace(grads, check and bool(prepared))
        if self.all_are_used:
            self._used = [True] * len(grads)

    def _replace(self, grads: list[torch.Tensor | None], says_so: bool) -> None:
        """Copies gradients that are not their views into them."""
        old, new = [], []
        for index, (param, grad, view) in enumerate(zip(self.params, grads, self.views, strict=True)):
            if grad is view:
                continue
            self._used[index] = grad is not None
            old.append(view)
            new.append(torch.zeros_like(view) if grad is None else grad.to_dense() if grad.is_sparse else grad)
            param.grad = view
        if says_so:
            maybe_print("Combined grad has been destroyed and will be recombined", rank0=True)
        torch._foreach_copy_(old, new)

    @torch.no_grad()
    def reduce(self, replicas: int) -> None:
        """Averages the gradients over all ranks, in `replicas` parts."""
        if not is_distributed():
            return
        self.flat.div_(torch.distributed.get_world_size())
        works = [torch.distributed.all_reduce(part, async_op=True) for part in self.flat.chunk(replicas)]
        for work in works:
            work.wait()

    def scaled(self) -> torch.Tensor:
        """The tensor to unscale: the flat tensor, or a float32 copy for the masters."""
        if self.masters is None:
            return self.flat
        if all(master.grad is None for master in self.masters):
            return self.master_flat.copy_(self.flat)
        return self.flat.float()

    @torch.no_grad()
    def finish(self, unscaled: torch.Tensor) -> None:
        """Gives the parameters their unscaled gradients, plus those that were set aside."""
        if self.masters is None:
            if self._stash is not None or self._stashed or not all(self._used):
                self._restore(lambda index: self._had[index] or self._used[index])
            return
        if unscaled is not self.master_flat:
            for master, view in zip(self.masters, self.master_views, strict=True):
                if master.grad is None:
                    view.zero_()
                elif master.grad is not view:
                    view.copy_(master.grad)
            self.master_flat.add_(unscaled)
        if all(self._used):
            for master, view in zip(self.masters, self.master_views, strict=True):
                master.grad = view
            return
        for param, master, view, is_used in zip(self.params, self.masters, self.master_views, self._used, strict=True):
            if not is_used:
                param.grad = None
            if is_used or master.grad is not None:
                master.grad = view

    def _restore(self, has_grad: Callable[[int], bool]) -> None:
        if self._stash is not None:
            self.flat.add_(self._stash)
        old = [(self.views[index], grad) for index, grad in self._stashed]
        if old:
            torch._foreach_add_([view for view, _ in old], [grad.to_dense() if grad.is_sparse else grad for _, grad in old])
        for index, (param, view) in enumerate(zip(self.params, self.views, strict=True)):
            param.grad = view if has_grad(index) and self.masters is None else None
        self._stash, self._stashed = None, []


def _flat_like(tensors: Sequence[torch.Tensor], dtype: torch.dtype) -> torch.Tensor:
    device = tensors[0].device if tensors else None
    return torch.zeros(sum(tensor.numel() for tensor in tensors), dtype=dtype, device=device)


def _views(flat: torch.Tensor, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Consecutive views with the shapes and strides of the tensors. Each has a version counter of its own."""
    views, offset = [], 0
    for tensor in tensors:
        views.append(flat.as_strided(tensor.shape, tensor.stride(), offset).data)
        offset += tensor.numel()
    return views


def _is_dense(tensor: torch.Tensor) -> bool:
    return tensor.is_contiguous() or torch.empty_like(tensor, device="meta").stride() == tensor.stride()
