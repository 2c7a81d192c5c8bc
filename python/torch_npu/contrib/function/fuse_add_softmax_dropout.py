"""Attention probabilities from raw scores: mask, softmax and dropout."""

import math

import torch


def fuse_add_softmax_dropout(
    training: bool,
    dropout: torch.nn.Module,
    attn_mask: torch.Tensor,
    attn_scores: torch.Tensor,
    attn_head_size: int,
    p: float = 0.5,
    dim: int = -1,
) -> torch.Tensor:
    """dropout(softmax(attn_mask + attn_scores / sqrt(attn_head_size))), with the probability p in training. The module `dropout`
    is not used."""
    probabilities = torch.add(attn_mask, attn_scores, alpha=1 / math.sqrt(attn_head_size)).softmax(dim)
    return torch.nn.functional.dropout(probabilities, p, training)
