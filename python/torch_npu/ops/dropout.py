"""Dropout that returns its mask: one byte per element, 1 for kept elements."""

import torch

from ._define import check, op


@op("_npu_dropout(Tensor self, float p) -> (Tensor, Tensor)")
def _npu_dropout(self, p):
    """(y, mask): elements are zero with the probability p, and divided by 1 - p otherwise."""
    mask = _mask(self, p, "_npu_dropout")
    return _masked(self, mask, p), mask


@op("_dropout_with_byte_mask(Tensor self, float p) -> (Tensor, Tensor)")
def _dropout_with_byte_mask(self, p):
    """_npu_dropout."""
    return _npu_dropout(self, p)


@op("dropout_with_byte_mask(Tensor self, float p, bool train) -> Tensor")
def dropout_with_byte_mask(self, p, train):
    """_npu_dropout without the mask; the input if not training."""
    return _npu_dropout(self, p)[0] if train else self.clone()


@op("npu_dropout_with_add_softmax(Tensor self, Tensor x1, Scalar alpha, float prob, int dim) -> (Tensor, Tensor, Tensor)")
def npu_dropout_with_add_softmax(self, x1, alpha, prob, dim):
    """(mask, softmax, y): the softmax of x1 + alpha self, and its dropout with the probability prob."""
    softmax = torch.add(x1, self, alpha=alpha).softmax(dim)
    mask = _mask(softmax, prob, "npu_dropout_with_add_softmax")
    return mask, softmax, _masked(softmax, mask, prob)


def _mask(x, p, operator):
    check(0 <= p <= 1, operator, f"a probability is 0 to 1, not {p}")
    return (torch.rand(x.shape, device=x.device) >= p).to(torch.uint8)


def _masked(x, mask, p):
    return x * mask * (1 / (1 - p) if p < 1 else 0)
