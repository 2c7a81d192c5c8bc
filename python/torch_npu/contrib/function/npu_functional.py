"""Dropout."""

import torch

import torch_npu


def dropout_with_byte_mask(input1: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> torch.Tensor:
    """Dropout: in training, elements are zero with the probability p, and divided by 1 - p otherwise."""
    if not 0 <= p <= 1:
        raise ValueError(f"a probability is 0 to 1, not {p}")
    if inplace:
        raise ValueError("dropout_with_byte_mask does not work in place; leave inplace out")
    return torch_npu.dropout_with_byte_mask(input1, p, training)
