"""Dropout."""

import torch_npu


def dropout_with_byte_mask(input1, p=0.5, training=True, inplace=False):
    """In training zeros with the probability p, the others over 1 - p."""
    if not 0 <= p <= 1:
        raise ValueError(f"a probability is 0 to 1, not {p}")
    if inplace:
        raise ValueError("dropout_with_byte_mask does not work in place; leave inplace out")
    return torch_npu.dropout_with_byte_mask(input1, p, training)
