"""The self-attention of BERT with its input projections, without its output projection."""

from typing import Any

import torch

import torch_npu

_WIDTH = 64


def npu_fused_attention(*args: Any, **kwargs: Any) -> torch.Tensor:
    """npu_fused_attention(hidden_states, attention_mask, query_kernel, key_kernel, value_kernel, query_bias, key_bias,
    value_bias, scale=1, keep_prob=1): [B * S, H].

    hidden_states are [B * S, H], with heads of 64 dimensions. attention_mask, [B, 1, S, S], is added to the scores. A projection
    is x @ kernel + bias. keep_prob is the share of probabilities that dropout keeps; 0 means all."""
    return _attend(*args, **kwargs)


def npu_fused_attention_with_layernorm(*args: Any, **kwargs: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """npu_fused_attention_with_layernorm(hidden_states, attention_mask, query_kernel, key_kernel, value_kernel, query_bias,
    key_bias, value_bias, gamma, beta, scale=1, keep_prob=1): (npu_fused_attention of the layer norm, the layer norm)."""
    return _attend_normed(*args, **kwargs)


def _attend(
    hidden_states: torch.Tensor,
    attention_mask: torch.Tensor,
    query_kernel: torch.Tensor,
    key_kernel: torch.Tensor,
    value_kernel: torch.Tensor,
    query_bias: torch.Tensor,
    key_bias: torch.Tensor,
    value_bias: torch.Tensor,
    scale: float = 1,
    keep_prob: float = 1,
) -> torch.Tensor:
    if hidden_states.dim() != 2 or hidden_states.size(1) % _WIDTH:
        raise ValueError(f"hidden_states are [B * S, H], with H a multiple of {_WIDTH}, not {list(hidden_states.shape)}")
    if attention_mask.dim() != 4 or hidden_states.size(0) % attention_mask.size(0):
        raise ValueError(f"attention_mask is [B, 1, S, S], not {list(attention_mask.shape)}")
    batch, heads = attention_mask.size(0), hidden_states.size(1) // _WIDTH
    layers = [
        torch.addmm(bias, hidden_states, kernel).view(batch, -1, heads, _WIDTH).transpose(1, 2)
        for kernel, bias in ((query_kernel, query_bias), (key_kernel, key_bias), (value_kernel, value_bias))
    ]
    return torch_npu.npu_fused_attention_score(*layers, attention_mask, scale, keep_prob or 1.0)


def _attend_normed(
    hidden_states: torch.Tensor,
    attention_mask: torch.Tensor,
    query_kernel: torch.Tensor,
    key_kernel: torch.Tensor,
    value_kernel: torch.Tensor,
    query_bias: torch.Tensor,
    key_bias: torch.Tensor,
    value_bias: torch.Tensor,
    gamma: torch.Tensor,
    beta: torch.Tensor,
    scale: float = 1,
    keep_prob: float = 1,
) -> tuple[torch.Tensor, torch.Tensor]:
    norm = torch.nn.functional.layer_norm(hidden_states, gamma.shape, gamma, beta)
    out = _attend(
        norm, attention_mask, query_kernel, key_kernel, value_kernel, query_bias, key_bias, value_bias, scale, keep_prob
    )
    return out, norm
