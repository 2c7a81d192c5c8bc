"""Losses, and softmaxes with a mask."""

import torch
from torch.nn.functional import cross_entropy

from ._define import check, op


@op("npu_softmax_cross_entropy_with_logits(Tensor self, Tensor labels) -> Tensor")
def npu_softmax_cross_entropy_with_logits(self, labels):
    """[n]: -sum(labels log_softmax(x)) over the last dimension."""
    check(
        self.shape == labels.shape,
        "npu_softmax_cross_entropy_with_logits",
        f"labels are probabilities of the shape {list(self.shape)}, not {list(labels.shape)}; npu_one_hot makes them of indices",
    )
    return -(labels * self.log_softmax(-1)).sum(-1)


@op(
    "npu_cross_entropy_loss(Tensor input, Tensor target, Tensor? weight=None, str reduction='mean', int ignore_index=-100,"
    " float label_smoothing=0.0, float lse_square_scale_for_zloss=0.0, bool return_zloss=False)"
    " -> (Tensor, Tensor, Tensor, Tensor)"
)
def npu_cross_entropy_loss(
    input,
    target,
    weight=None,
    reduction="mean",
    ignore_index=-100,
    label_smoothing=0.0,
    lse_square_scale_for_zloss=0.0,
    return_zloss=False,
):
    """(loss, log_probabilities, zloss, lse): torch.nn.functional.cross_entropy, as a tensor of one element unless the
    reduction is none. zloss and lse are empty: lse_square_scale_for_zloss has to be 0."""
    name = "npu_cross_entropy_loss"
    check(reduction in ("mean", "sum", "none"), name, f"reduction is mean, sum or none, not {reduction}")
    check(
        lse_square_scale_for_zloss == 0 and not return_zloss,
        name,
        "the z-loss is not offered; add scale * x.logsumexp(-1).square() to the loss",
    )
    check(input.dim() == 2 and target.shape == input.shape[:1], name, f"{list(input.shape)} needs a target [{input.size(0)}]")
    precise = input.float() if input.dtype in (torch.float16, torch.bfloat16) else input
    loss = cross_entropy(
        precise, target, weight, reduction=reduction, ignore_index=ignore_index, label_smoothing=label_smoothing
    ).to(input.dtype)
    log = precise.log_softmax(-1).to(input.dtype)
    return loss if reduction == "none" else loss.view(1), log, input.new_empty(0), input.new_empty(0)


@op("npu_scaled_masked_softmax(Tensor x, Tensor mask, Scalar scale=1, bool fixed_triu_mask=False) -> Tensor")
def npu_scaled_masked_softmax(x, mask, scale=1, fixed_triu_mask=False):
    """The softmax of scale x, which is -10000 where the mask is True; fixed_triu_mask masks what is above the diagonal
    instead."""
    name = "npu_scaled_masked_softmax"
    check(mask.dtype == torch.bool, name, f"mask is bool, not {mask.dtype}; write mask.bool()")
    if fixed_triu_mask:
        mask = torch.ones(x.shape[-2:], dtype=torch.bool, device=x.device).triu(1)
    return (x * scale).masked_fill(mask, -10000.0).softmax(-1)


@op(
    "npu_masked_softmax_with_rel_pos_bias(Tensor x, Tensor? atten_mask, Tensor relative_pos_bias, float scale_value=1.0,"
    " int inner_precision_mode=0) -> Tensor"
)
def npu_masked_softmax_with_rel_pos_bias(x, atten_mask, relative_pos_bias, scale_value=1.0, inner_precision_mode=0):
    """The softmax of scale_value x + atten_mask + relative_pos_bias."""
    x = x * scale_value + relative_pos_bias
    return (x if atten_mask is None else x + atten_mask).softmax(-1)
