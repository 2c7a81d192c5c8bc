"""Dropout that returns its mask: one byte per element, 1 for kept elements."""

import torch

from ._define import check, op


@op("_npu_dropout(Tensor self, float p) -> (Tensor, Tensor)")
def _npu_dropout(self, p):
    """(y, mask): elements are zero with the probability p, and divided by 1 - p otherwise."""
    return drop(self, p, "_npu_dropout")


@op("_dropout_with_byte_mask(Tensor self, float p) -> (Tensor, Tensor)")
def _dropout_with_byte_mask(self, p):
    """_npu_dropout."""
    return _npu_dropout(self, p)


@op("dropout_with_byte_mask(Tensor self, float p, bool train) -> Tensor")
def dropout_with_byte_mask(self, p, train):
    """_npu_dropout without the mask; the input if not training."""
    return _npu_dropout(self, p)[0] if train else self.clone()


@op("npu_dropoutV2(Tensor self, Tensor(a!) seed, float p) -> (Tensor, Tensor, Tensor(a!))")
def npu_dropoutV2(self, seed, p):
    """(y, mask, seed): _npu_dropout. The seed is returned as it is: torch.manual_seed seeds the generator."""
    return *drop(self, p, "npu_dropoutV2"), seed


@op(
    "npu_dropout_gen_mask(int[] size, float p, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None,"
    " bool? pin_memory=None) -> Tensor"
)
def npu_dropout_gen_mask(size, p, *, dtype=None, layout=None, device=None, pin_memory=None):
    """A mask of that size for npu_dropout_do_mask: uint8, 0 with the probability p. dtype is that of the tensors that will be
    masked."""
    _probability(p, "npu_dropout_gen_mask")
    mask = torch.empty(size, dtype=torch.uint8, device="npu" if device is None else device)
    return mask.bernoulli_(1 - p)


@op("npu_dropout_do_mask(Tensor self, Tensor mask, float p) -> (Tensor, Tensor)")
def npu_dropout_do_mask(self, mask, p):
    """(y, mask): elements are zero where the mask is 0, and divided by 1 - p elsewhere."""
    name = "npu_dropout_do_mask"
    _probability(p, name)
    check(
        mask.numel() == self.numel(),
        name,
        f"the mask has an element for each of the {self.numel()} elements of the input, not {mask.numel()}; "
        f"write npu_dropout_gen_mask({list(self.shape)}, {p})",
    )
    return masked(self, mask, p), mask


@op("npu_dropout_with_add_softmax(Tensor self, Tensor x1, Scalar alpha, float prob, int dim) -> (Tensor, Tensor, Tensor)")
def npu_dropout_with_add_softmax(self, x1, alpha, prob, dim):
    """(mask, softmax, y): the softmax of x1 + alpha self, and its dropout with the probability prob."""
    softmax = torch.add(x1, self, alpha=alpha).softmax(dim)
    y, mask = drop(softmax, prob, "npu_dropout_with_add_softmax")
    return mask, softmax, y


def drop(x, p, operator):
    """(y, mask)."""
    _probability(p, operator)
    y, mask = torch.native_dropout(x, p, True)
    return y, mask.view(torch.uint8)


def masked(x, mask, p):
    """x / (1 - p), 0 where the mask is 0."""
    scale = 1 / (1 - p) if p < 1 else 0.0
    return torch.ops.aten.native_dropout_backward(x, mask.reshape(x.shape).bool(), scale)


def _probability(p, operator):
    check(0 <= p <= 1, operator, f"a probability is 0 to 1, not {p}")
