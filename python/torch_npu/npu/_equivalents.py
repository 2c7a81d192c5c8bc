"""Operators that npu has and the CPU has not, as other operators of the CPU compute them. Neither needs autograd.

result = repeat(torch.ops.aten.add.Tensor, x, y)       # the operator, or its equivalent for tensors on the CPU
known(op, result)                                      # the results that the equivalent has too
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree


def _scores(query: Any, key: Any, bias: Any, is_causal: bool, factor: float) -> torch.Tensor:
    scores = query @ key.transpose(-2, -1) * factor
    if is_causal:
        bias = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    if bias is None:
        return scores
    return scores.masked_fill(~bias, float("-inf")) if bias.dtype == torch.bool else scores + bias


def _attention(
    query: Any,
    key: Any,
    value: Any,
    attn_bias: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    return_debug_mask: bool = False,
    *,
    scale: float | None = None,
) -> Any:
    scores = _scores(query, key, attn_bias, is_causal, scale or query.shape[-1] ** -0.5)
    shares = torch.softmax(scores, -1).masked_fill(scores == float("-inf"), 0)  # also where all of a row is masked
    return (shares.to(value.dtype) @ value,)


def _attention_backward(
    grad_out: Any,
    query: Any,
    key: Any,
    value: Any,
    attn_bias: Any,
    grad_input_mask: Any,
    out: Any,
    logsumexp: Any,
    cum_seq_q: Any,
    cum_seq_k: Any,
    max_q: int,
    max_k: int,
    dropout_p: float,
    is_causal: bool,
    philox_seed: Any,
    philox_offset: Any,
    *,
    scale: float | None = None,
) -> Any:
    factor = scale or query.shape[-1] ** -0.5
    scores = _scores(query, key, attn_bias, is_causal, factor)
    shares = (scores - logsumexp.unsqueeze(-1)).exp().masked_fill(scores == float("-inf"), 0).to(query.dtype)
    of_shares = grad_out @ value.transpose(-2, -1) - (grad_out * out).sum(-1, keepdim=True)
    of_scores = shares * of_shares * factor
    return of_scores @ key, of_scores.transpose(-2, -1) @ query, shares.transpose(-2, -1) @ grad_out


def _gru_cell(input_gates: Any, hidden_gates: Any, hx: Any, input_bias: Any = None, hidden_bias: Any = None) -> Any:
    given = (input_gates if input_bias is None else input_gates + input_bias).chunk(3, 1)
    hidden = (hidden_gates if hidden_bias is None else hidden_gates + hidden_bias).chunk(3, 1)
    reset, update = torch.sigmoid(given[0] + hidden[0]), torch.sigmoid(given[1] + hidden[1])
    new = torch.tanh(given[2] + reset * hidden[2])
    return (new + update * (hx - new),)


# name -> the equivalent, and how many of the first results it has
_EQUIVALENTS: dict[str, tuple[Callable[..., Any], int]] = {
    "aten::_scaled_dot_product_fused_attention_overrideable": (_attention, 1),
    "aten::_scaled_dot_product_fused_attention_overrideable_backward": (_attention_backward, 3),
    "aten::_thnn_fused_gru_cell": (_gru_cell, 1),
}


def has_one(op: Any) -> bool:
    return op._name in _EQUIVALENTS


def known(op: Any, result: Any) -> Any:
    return tuple(result[: _EQUIVALENTS[op._name][1]]) if has_one(op) else result


def repeat(op: Any, *args: Any, **kwargs: Any) -> Any:
    tensors = [each for each in pytree.tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)]
    if has_one(op) and all(each.is_cpu for each in tensors):
        return _EQUIVALENTS[op._name][0](*args, **kwargs)
    return known(op, op(*args, **kwargs))
