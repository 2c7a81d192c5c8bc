"""Attention over parts of the keys, as in ring attention between ranks."""

import torch

from ._define import check, op, precisely, refuse
from ._mask import EVERYTHING, Mask
from .attention import _joined, _split


@op(
    "npu_fusion_attention_grad(Tensor query, Tensor key, Tensor value, Tensor dy, int head_num, str input_layout, *,"
    " Tensor? pse=None, Tensor? padding_mask=None, Tensor? atten_mask=None, Tensor? softmax_max=None, Tensor? softmax_sum=None,"
    " Tensor? softmax_in=None, Tensor? attention_in=None, float scale_value=1., float keep_prob=1., int pre_tockens=2147483647,"
    " int next_tockens=2147483647, int inner_precise=0, int seed=0, int offset=0, int numels=0, int[]? prefix=None,"
    " int[]? actual_seq_qlen=None, int[]? actual_seq_kvlen=None, int sparse_mode=0, bool gen_mask_parallel=True, bool sync=False,"
    ' str softmax_layout="", Tensor? sink=None) -> (Tensor, Tensor, Tensor, Tensor, Tensor)'
)
@precisely
def npu_fusion_attention_grad(
    query,
    key,
    value,
    dy,
    head_num,
    input_layout,
    *,
    pse=None,
    padding_mask=None,
    atten_mask=None,
    softmax_max=None,
    softmax_sum=None,
    softmax_in=None,
    attention_in=None,
    scale_value=1.0,
    keep_prob=1.0,
    pre_tockens=EVERYTHING,
    next_tockens=EVERYTHING,
    inner_precise=0,
    seed=0,
    offset=0,
    numels=0,
    prefix=None,
    actual_seq_qlen=None,
    actual_seq_kvlen=None,
    sparse_mode=0,
    gen_mask_parallel=True,
    sync=False,
    softmax_layout="",
    sink=None,
):
    """(dq, dk, dv, empty, empty): gradients of npu_fusion_attention without dropout, from its results softmax_max, softmax_sum
    and attention_in, which may cover more keys than `key` has. Layouts BSH, SBH, BSND and BNSD."""
    name = "npu_fusion_attention_grad"
    refuse(name, pse=pse, padding_mask=padding_mask, sink=sink)
    check(keep_prob == 1, name, "dropout is not offered; npu_fusion_attention is differentiable with it")
    given = (softmax_max, softmax_sum, attention_in)
    check(all(x is not None for x in given), name, "softmax_max, softmax_sum and attention_in are needed")
    mask = Mask(name, atten_mask, sparse_mode, pre_tockens, next_tockens, prefix)
    q, k, v = (x.to(softmax_max.dtype) for x in _split(name, query, key, value, head_num, input_layout))
    g, _, out = (x.to(q.dtype) for x in _split(name, dy, dy, attention_in, head_num, input_layout))
    shared = q.size(1) // k.size(1)
    k, v = k.repeat_interleave(shared, 1), v.repeat_interleave(shared, 1)
    scores = q @ k.transpose(-1, -2) * scale_value
    hidden = mask(q, k)
    if hidden is not None:
        scores = scores.masked_fill(hidden, float("-inf"))
    total = softmax_sum[..., :1]
    weights = (scores - softmax_max[..., :1]).exp() / torch.where(total == 0, 1, total)
    inner = weights * (g @ v.transpose(-1, -2) - (g * out).sum(-1, keepdim=True)) * scale_value
    heads = lambda x: x.unflatten(1, (-1, shared)).sum(2)  # noqa: E731
    grads = inner @ k, heads(inner.transpose(-1, -2) @ q), heads(weights.transpose(-1, -2) @ g)
    return *(_joined(x, input_layout).to(query.dtype) for x in grads), query.new_empty(0), query.new_empty(0)


@op(
    "npu_ring_attention_update(Tensor prev_attn_out, Tensor prev_softmax_max, Tensor prev_softmax_sum, Tensor cur_attn_out,"
    " Tensor cur_softmax_max, Tensor cur_softmax_sum, *, Tensor? actual_seq_qlen=None, "
    'str input_layout="SBH", str input_softmax_layout="") -> (Tensor, Tensor, Tensor)'
)
def npu_ring_attention_update(
    prev_attn_out,
    prev_softmax_max,
    prev_softmax_sum,
    cur_attn_out,
    cur_softmax_max,
    cur_softmax_sum,
    *,
    actual_seq_qlen=None,
    input_layout="SBH",
    input_softmax_layout="",
):
    """(out, softmax_max, softmax_sum): the attention over the keys of both, from the results of npu_fusion_attention over each;
    layouts SBH, with statistics [B, N, S, 8], and TND, with [T, N, 8]."""
    name = "npu_ring_attention_update"
    check(input_layout in ("SBH", "TND"), name, f"input_layout is SBH or TND, not {input_layout}")
    most = torch.maximum(prev_softmax_max, cur_softmax_max)
    old, new = prev_softmax_sum * (prev_softmax_max - most).exp(), cur_softmax_sum * (cur_softmax_max - most).exp()
    total = old + new

    def part(out, share):
        share = (share / total)[..., :1]
        if input_layout == "TND":
            return out * share
        share = share.permute(2, 0, 1, 3)
        return (out.unflatten(2, (share.size(2), -1)) * share).flatten(2)

    return (part(prev_attn_out, old) + part(cur_attn_out, new)).to(prev_attn_out.dtype), most, total


@op("npu_attention_update(Tensor[] lse, Tensor[] local_out, int update_type) -> (Tensor, Tensor)")
def npu_attention_update(lse, local_out, update_type):
    """(out, lse): the attention over all keys, from that over parts of them; lse is empty for update_type 0."""
    check(update_type in (0, 1), "npu_attention_update", f"update_type is 0 or 1, not {update_type}")
    parts = torch.stack(list(lse))
    whole = parts.logsumexp(0)
    out = (torch.stack(list(local_out)).float() * (parts - whole).exp().unsqueeze(-1)).sum(0).to(local_out[0].dtype)
    return out, whole if update_type else whole.new_empty(0)
