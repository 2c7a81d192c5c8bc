"""Losses, and softmaxes with a mask."""

import torch
from torch.nn.functional import cross_entropy

from ._define import check, op, precise, precisely, refuse


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
    wide = precise(input)
    loss = cross_entropy(
        wide, target, weight, reduction=reduction, ignore_index=ignore_index, label_smoothing=label_smoothing
    ).to(input.dtype)
    log = wide.log_softmax(-1).to(input.dtype)
    return loss if reduction == "none" else loss.view(1), log, input.new_empty(0), input.new_empty(0)


@op("npu_scaled_masked_softmax(Tensor x, Tensor mask, Scalar scale=1, bool fixed_triu_mask=False) -> Tensor")
def npu_scaled_masked_softmax(x, mask, scale=1, fixed_triu_mask=False):
    """The softmax of scale x, with -10000 where the mask is True. fixed_triu_mask masks the elements above the diagonal
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


@op(
    "npu_fused_linear_online_max_sum(Tensor input, Tensor weight, Tensor target, int vocab_start_index, int vocab_end_index,"
    " bool return_logits=False) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)"
)
@precisely
def npu_fused_linear_online_max_sum(input, weight, target, vocab_start_index, vocab_end_index, return_logits=False):
    """(maximum, sum, predicted, mask, place, logits) of the logits input @ weight^T of a part of a vocabulary, from
    vocab_start_index to vocab_end_index: per row the largest one, the sum of exp(logits - maximum), and the target's logit -
    maximum, zero for targets outside, all float32; a bit per row, the first one highest, 1 for targets outside and for padding
    after the last row; the target's index in the part, 0 outside; and the logits, empty unless return_logits."""
    name = "npu_fused_linear_online_max_sum"
    fits = input.dim() == weight.dim() == 2 and input.size(1) == weight.size(1)
    check(fits, name, f"input is [n, h] and weight [v, h], not {list(input.shape)} and {list(weight.shape)}")
    check(target.shape == input.shape[:1], name, f"target is [{input.size(0)}], not {list(target.shape)}")
    logits = (precise(input) @ precise(weight).t()).to(input.dtype)
    wide = precise(logits)
    most = wide.amax(-1)
    rest = wide - most.unsqueeze(1)
    outside = (target < vocab_start_index) | (target > vocab_end_index)
    place = torch.where(outside, 0, target - vocab_start_index)
    predicted = torch.where(outside, 0, rest.gather(1, place.long().unsqueeze(1)).squeeze(1))
    bits = torch.nn.functional.pad(outside.to(torch.int32), (0, -target.numel() % 8), value=1).view(-1, 8)
    mask = (bits << torch.arange(7, -1, -1, device=target.device, dtype=torch.int32)).sum(1).to(torch.uint8)
    return most, rest.exp().sum(-1), predicted, mask, place, logits if return_logits else logits.new_empty(0)


@op(
    "npu_fused_cross_entropy_loss_with_max_sum(Tensor logits_max, Tensor sum_exp_logits, Tensor predicted_logits, *,"
    " float? label_smoothing=0.0, Tensor? input=None, Tensor? weight=None, Tensor? vocab_parallel_logits=None)"
    " -> (Tensor, Tensor)"
)
def npu_fused_cross_entropy_loss_with_max_sum(
    logits_max,
    sum_exp_logits,
    predicted_logits,
    *,
    label_smoothing=0.0,
    input=None,
    weight=None,
    vocab_parallel_logits=None,
):
    """(loss, softmax) by the results of npu_fused_linear_online_max_sum: log(sum_exp_logits) - predicted_logits, and float32
    exp(vocab_parallel_logits - logits_max) / sum_exp_logits, empty without the logits."""
    name = "npu_fused_cross_entropy_loss_with_max_sum"
    refuse(name, input=input, weight=weight)
    check(not label_smoothing, name, f"label_smoothing is 0, not {label_smoothing}")
    loss = sum_exp_logits.log() - predicted_logits
    if vocab_parallel_logits is None:
        return loss, loss.new_empty(0)
    return loss, (precise(vocab_parallel_logits) - logits_max.unsqueeze(-1)).exp() / sum_exp_logits.unsqueeze(-1)


@op(
    "npu_fused_linear_cross_entropy_loss_with_max_sum_backward(Tensor grad, Tensor input, Tensor weight, Tensor target_mask,"
    " Tensor masked_target, float label_smoothing=0.0, Tensor? logits_max=None, Tensor? sum_exp_logits=None,"
    " Tensor? softmax=None) -> (Tensor, Tensor)"
)
@precisely
def npu_fused_linear_cross_entropy_loss_with_max_sum_backward(
    grad,
    input,
    weight,
    target_mask,
    masked_target,
    label_smoothing=0.0,
    logits_max=None,
    sum_exp_logits=None,
    softmax=None,
):
    """The gradients, by input and weight, of the loss of npu_fused_cross_entropy_loss_with_max_sum, whose gradient is grad [n].
    The softmax is given, or logits_max and sum_exp_logits are."""
    name = "npu_fused_linear_cross_entropy_loss_with_max_sum_backward"
    check(not label_smoothing, name, f"label_smoothing is 0, not {label_smoothing}")
    both = logits_max is not None and sum_exp_logits is not None
    check(softmax is not None or both, name, "softmax is needed, or logits_max and sum_exp_logits")
    wide, matrix = precise(input), precise(weight)
    if softmax is None:
        softmax = (wide @ matrix.t() - logits_max.unsqueeze(1)).exp() / sum_exp_logits.unsqueeze(1)
    shifts = torch.arange(7, -1, -1, device=target_mask.device, dtype=torch.int32)
    outside = ((target_mask.to(torch.int32).unsqueeze(1) >> shifts) & 1).flatten()[: grad.numel()]
    inside = (1 - outside).to(softmax.dtype).unsqueeze(1)
    error = softmax.scatter_add(1, masked_target.long().unsqueeze(1), -inside) * grad.unsqueeze(1)
    return (error @ matrix).to(input.dtype), (error.t() @ wide).to(weight.dtype)
