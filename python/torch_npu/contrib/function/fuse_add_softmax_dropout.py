"""The scores of an attention, from raw ones to what multiplies the values."""

import math

import torch


def fuse_add_softmax_dropout(training, dropout, attn_mask, attn_scores, attn_head_size, p=0.5, dim=-1):
    """dropout(softmax(attn_mask + attn_scores / sqrt(attn_head_size))): in training with the probability p, which `dropout`, a
    module, stands for; outside of it there is none."""
    probabilities = torch.add(attn_mask, attn_scores, alpha=1 / math.sqrt(attn_head_size)).softmax(dim)
    return torch.nn.functional.dropout(probabilities, p, training)
