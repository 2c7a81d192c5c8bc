"""AdamP (Heo et al., 2020) on combined tensors: removes the radial part from the step of a scale-invariant weight.

A weight of two or more dimensions is scale-invariant if its gradient is almost orthogonal to it, per channel or as a whole: the
cosine is below delta divided by the root of the size. Then its step loses the radial part, and its decay is wd_ratio times
weight_decay. This is decided on the device, without a wait: sums over the channels of all weights are computed at once.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import torch

from .npu_fused_optim_base import NpuFusedOptimizerBase, check

if TYPE_CHECKING:
    from torch.optim.optimizer import ParamsT

    from .chunk import Chunk, Part


class NpuFusedAdamP(NpuFusedOptimizerBase):
    def __init__(
        self,
        params: ParamsT,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        delta: float = 0.1,
        wd_ratio: float = 0.1,
        nesterov: bool = False,
    ) -> None:
        check("NpuFusedAdamP", betas=betas, eps=eps, weight_decay=weight_decay, delta=delta, wd_ratio=wd_ratio)
        options = {"betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, {"lr": lr, **options, "delta": delta, "wd_ratio": wd_ratio, "nesterov": nesterov})

    def _step_chunk(self, chunk: Chunk, group: dict[str, Any]) -> None:
        for part in chunk.parts():
            _update(part, group)
        lr, update = float(group["lr"]), chunk.buffer("update")
        shares = _project(chunk, update, group)
        if group["weight_decay"] and shares is None:
            chunk.param.mul_(1 - lr * group["weight_decay"])
        elif group["weight_decay"]:
            chunk.param.mul_(chunk.spread(1 - lr * group["weight_decay"] * shares))
        chunk.param.add_(update, alpha=-lr / (1 - group["betas"][0] ** chunk.step))


def _update(part: Chunk | Part, group: dict[str, Any]) -> None:
    """Writes the step of Adam, without the rate and the correction of the first moment, to the buffer."""
    beta1, beta2 = group["betas"]
    exp_avg, exp_avg_sq = part.state("exp_avg"), part.state("exp_avg_sq")
    exp_avg.mul_(beta1).add_(part.grad, alpha=1 - beta1)
    exp_avg_sq.mul_(beta2).addcmul_(part.grad, part.grad, value=1 - beta2)
    denominator = exp_avg_sq.sqrt().div_(math.sqrt(1 - beta2**part.step)).add_(group["eps"])
    direction = torch.lerp(part.grad, exp_avg, beta1) if group["nesterov"] else exp_avg
    torch.div(direction, denominator, out=part.buffer("update"))


class Rows:
    """The rows of the parameters of a chunk. A weight of two or more dimensions has a row per channel; others are one row."""

    def __init__(self, chunk: Chunk) -> None:
        params = [param for param in chunk.params if param.numel()]
        counts = [param.shape[0] if param.dim() > 1 else 1 for param in params]
        lengths = [param.numel() // count for param, count in zip(params, counts, strict=True)]
        self.number, self.elements = sum(counts), chunk.param.numel()
        self.dtype = torch.promote_types(chunk.param.dtype, torch.float32)

        def on_device(values: Any, dtype: torch.dtype | None = None) -> torch.Tensor:
            return torch.as_tensor(values, dtype=dtype).to(chunk.param.device)

        self.counts = on_device(counts)
        self.lengths = on_device(lengths).repeat_interleave(self.counts)
        self.is_weight = on_device([param.dim() > 1 for param in params])
        self.row_limit = on_device(lengths, self.dtype).rsqrt()
        self.limit = on_device([param.numel() for param in params], self.dtype).rsqrt()
        self.numbers = on_device([number for number, param in enumerate(chunk.params) if param.numel()])
        # The order of the elements by rows, if rows are not consecutive in memory.
        self._order, self._memory_order = None, None
        if any(row.dim() > 1 and row.stride(0) * row.shape[0] != row.numel() and row.shape[0] > 1 for row in params):
            ends = itertools.accumulate(param.numel() for param in params)
            places = torch.arange(self.elements)
            views = [places.as_strided(p.shape, p.stride(), end - p.numel()) for p, end in zip(params, ends, strict=True)]
            order = torch.cat([view.reshape(-1) for view in views])
            self._order, self._memory_order = on_device(order), on_device(order.argsort())

    def by_row(self, flat: torch.Tensor) -> torch.Tensor:
        return (flat if self._order is None else flat[self._order]).to(self.dtype)

    def in_memory_order(self, flat: torch.Tensor) -> torch.Tensor:
        return flat if self._memory_order is None else flat[self._memory_order]

    def sums(self, values: torch.Tensor) -> torch.Tensor:
        """The sum of each row."""
        return torch.segment_reduce(values, "sum", lengths=self.lengths, unsafe=True)

    def per_param(self, rows: torch.Tensor, reduction: str = "sum") -> torch.Tensor:
        return torch.segment_reduce(rows, reduction, lengths=self.counts, unsafe=True)

    def of_param(self, params: torch.Tensor) -> torch.Tensor:
        """Repeats a number per parameter for each of its rows."""
        return params.repeat_interleave(self.counts, output_size=self.number)

    def to_elements(self, rows: torch.Tensor) -> torch.Tensor:
        return rows.repeat_interleave(self.lengths, output_size=self.elements)


def _project(chunk: Chunk, update: torch.Tensor, group: dict[str, Any]) -> torch.Tensor | None:
    """Removes the radial parts from the update in place. Returns the remaining share of weight_decay of each parameter.

    None: no parameter has two dimensions."""
    if all(param.dim() < 2 or not param.numel() for param in chunk.params):
        return None
    rows = chunk.cached("rows", lambda: Rows(chunk))
    weight, grad, step = (rows.by_row(flat) for flat in (chunk.param, chunk.grad, update))
    sums = [rows.sums(one * other) for one, other in ((weight, weight), (grad, grad), (weight, grad), (weight, step))]
    row_cosine, row_radius = _cosine_and_radius(sums, group["eps"])
    cosine, radius = _cosine_and_radius([rows.per_param(each) for each in sums], group["eps"])
    by_row = rows.is_weight & (rows.per_param(row_cosine, "max") < group["delta"] * rows.row_limit)
    as_whole = rows.is_weight & ~by_row & (cosine < group["delta"] * rows.limit)
    radius = torch.where(rows.of_param(by_row), row_radius, rows.of_param(torch.where(as_whole, radius, 0.0)))
    update.sub_(rows.in_memory_order(weight * rows.to_elements(radius)))
    shares = torch.ones(len(chunk.params), dtype=update.dtype, device=update.device)
    return shares.index_copy_(0, rows.numbers, torch.where(by_row | as_whole, group["wd_ratio"], 1.0).to(update.dtype))


def _cosine_and_radius(sums: list[torch.Tensor], eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    """From products of weight w, gradient g and update u, ww, gg, wg and wu: the cosine of the angle of weight and gradient, and
    the factor of the weight in the radial part of the update."""
    ww, gg, wg, wu = sums
    norm = ww.sqrt().add_(eps)
    return wg.abs() / gg.sqrt().add_(eps) / norm, wu / norm.square()
