"""Attention over whole sequences: softmax(scale q k^T, masked) v, computed in float32 for half precision.

Layouts are BSH, SBH, BSND, BNSD (batch, sequence, heads, dimension; H = heads * dimension) and TND, where the sequences of a
batch are concatenated and actual_seq_qlen and actual_seq_kvlen are their ends. If key and value have fewer heads than query,
groups of query heads share them. _mask.py describes atten_mask and sparse_mode. A query that sees no key gives zeros.
"""

import torch

from ._define import check, op, precise, precisely, refuse
from ._mask import EVERYTHING, Mask


@op(
    "npu_fusion_attention(Tensor query, Tensor key, Tensor value, int head_num, str input_layout, Tensor? pse=None,"
    " Tensor? padding_mask=None, Tensor? atten_mask=None, float scale=1., float keep_prob=1., int pre_tockens=2147483647,"
    " int next_tockens=2147483647, int inner_precise=0, int[]? prefix=None, int[]? actual_seq_qlen=None,"
    ' int[]? actual_seq_kvlen=None, int sparse_mode=0, bool gen_mask_parallel=True, bool sync=False, str softmax_layout="",'
    " Tensor? sink=None, Tensor? dropout_mask=None, int seed=0, int offset=0)"
    " -> (Tensor, Tensor, Tensor, Tensor, int, int, int)"
)
def npu_fusion_attention(
    query,
    key,
    value,
    head_num,
    input_layout,
    pse=None,
    padding_mask=None,
    atten_mask=None,
    scale=1.0,
    keep_prob=1.0,
    pre_tockens=EVERYTHING,
    next_tockens=EVERYTHING,
    inner_precise=0,
    prefix=None,
    actual_seq_qlen=None,
    actual_seq_kvlen=None,
    sparse_mode=0,
    gen_mask_parallel=True,
    sync=False,
    softmax_layout="",
    sink=None,
    dropout_mask=None,
    seed=0,
    offset=0,
):
    """(out, softmax_max, softmax_sum, empty, seed, offset, numels): attention for training, with dropout of 1 - keep_prob.

    The softmax is of scale (q k^T + pse). softmax_max and softmax_sum are float32, [B, N, S, 8], for TND [T, N, 8], with the same
    value eight times. The same seed gives the same dropout; numels is the size of its mask."""
    name = "npu_fusion_attention"
    refuse(name, padding_mask=padding_mask, dropout_mask=dropout_mask)
    mask = Mask(name, atten_mask, sparse_mode, pre_tockens, next_tockens, prefix)
    return _train(
        name, query, key, value, head_num, input_layout, pse, True, mask, scale, keep_prob, actual_seq_qlen, actual_seq_kvlen,
        sink, seed, offset,
    )  # fmt: skip


@op(
    "npu_fusion_attention_v2(Tensor query, Tensor key, Tensor value, int head_num, str input_layout, *, Tensor? pse=None,"
    " Tensor? padding_mask=None, Tensor? atten_mask=None, Tensor? query_rope=None, Tensor? key_rope=None, float scale=1.,"
    " float keep_prob=1., int pre_tokens=2147483647, int next_tokens=2147483647, int inner_precise=0, int[]? prefix=None,"
    " int[]? actual_seq_qlen=None, int[]? actual_seq_kvlen=None, int sparse_mode=0, bool gen_mask_parallel=True, bool sync=False,"
    ' int pse_type=1, int[]? q_start_idx=None, int[]? kv_start_idx=None, str softmax_layout="", Tensor? sink=None,'
    " Tensor? dropout_mask=None, int seed=0, int offset=0) -> (Tensor, Tensor, Tensor, Tensor, int, int, int)"
)
def npu_fusion_attention_v2(
    query,
    key,
    value,
    head_num,
    input_layout,
    *,
    pse=None,
    padding_mask=None,
    atten_mask=None,
    query_rope=None,
    key_rope=None,
    scale=1.0,
    keep_prob=1.0,
    pre_tokens=EVERYTHING,
    next_tokens=EVERYTHING,
    inner_precise=0,
    prefix=None,
    actual_seq_qlen=None,
    actual_seq_kvlen=None,
    sparse_mode=0,
    gen_mask_parallel=True,
    sync=False,
    pse_type=1,
    q_start_idx=None,
    kv_start_idx=None,
    softmax_layout="",
    sink=None,
    dropout_mask=None,
    seed=0,
    offset=0,
):
    """npu_fusion_attention. pse_type 0 adds pse after the scaling. With query_rope and key_rope (TND, BSND and BNSD) the product
    is q k^T + query_rope key_rope^T."""
    name = "npu_fusion_attention_v2"
    refuse(name, padding_mask=padding_mask, dropout_mask=dropout_mask, q_start_idx=q_start_idx, kv_start_idx=kv_start_idx)
    check(pse_type in (0, 1), name, f"pse_type is 0 or 1, not {pse_type}; for ALiBi pass the slopes times distances as pse")
    check((query_rope is None) == (key_rope is None), name, "query_rope and key_rope come together")
    if query_rope is not None:
        check(input_layout in ("TND", "BSND", "BNSD"), name, f"query_rope needs the layout TND, BSND or BNSD, not {input_layout}")
        query, key = torch.cat((query, query_rope), -1), torch.cat((key, key_rope), -1)
    mask = Mask(name, atten_mask, sparse_mode, pre_tokens, next_tokens, prefix)
    return _train(
        name, query, key, value, head_num, input_layout, pse, pse_type == 1, mask, scale, keep_prob, actual_seq_qlen,
        actual_seq_kvlen, sink, seed, offset,
    )  # fmt: skip


@op(
    "npu_fusion_attention_v3(Tensor query, Tensor key, Tensor value, int head_num, str input_layout, Tensor? pse=None,"
    " Tensor? padding_mask=None, Tensor? atten_mask=None, float scale=1., float keep_prob=1., int pre_tockens=2147483647,"
    " int next_tockens=2147483647, int inner_precise=0, SymInt[]? prefix=None, Tensor? actual_seq_qlen=None,"
    " Tensor? actual_seq_kvlen=None, int sparse_mode=0, bool gen_mask_parallel=True, bool sync=False,"
    ' str softmax_layout="", Tensor? sink=None) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)'
)
def npu_fusion_attention_v3(
    query,
    key,
    value,
    head_num,
    input_layout,
    pse=None,
    padding_mask=None,
    atten_mask=None,
    scale=1.0,
    keep_prob=1.0,
    pre_tockens=EVERYTHING,
    next_tockens=EVERYTHING,
    inner_precise=0,
    prefix=None,
    actual_seq_qlen=None,
    actual_seq_kvlen=None,
    sparse_mode=0,
    gen_mask_parallel=True,
    sync=False,
    softmax_layout="",
    sink=None,
):
    """npu_fusion_attention with the ends of sequences as tensors, which are read back, and seed and offset as tensors: (out,
    softmax_max, softmax_sum, empty, seed, offset)."""
    name = "npu_fusion_attention_v3"
    refuse(name, padding_mask=padding_mask)
    mask = Mask(name, atten_mask, sparse_mode, pre_tockens, next_tockens, prefix)
    ends = (None if each is None else each.tolist() for each in (actual_seq_qlen, actual_seq_kvlen))
    *results, seed, offset, _ = _train(
        name, query, key, value, head_num, input_layout, pse, True, mask, scale, keep_prob, *ends, sink, 0, 0
    )
    return *results, *(torch.tensor([number], device=query.device) for number in (seed, offset))


@op(
    "npu_fused_floyd_attention(Tensor query_ik, Tensor key_ij, Tensor value_ij, Tensor key_jk, Tensor value_jk, *,"
    " Tensor? atten_mask=None, float scale_value=1.) -> (Tensor, Tensor, Tensor)"
)
@precisely
def npu_fused_floyd_attention(query_ik, key_ij, value_ij, key_jk, value_jk, *, atten_mask=None, scale_value=1.0):
    """(softmax_max, softmax_sum, out [B, H, N, M, D]): attention over K of query_ik [B, H, N, M, D] to key_ij, value_ij [B, H,
    N, K, D] and key_jk, value_jk [B, H, K, M, D]: the softmax of scale_value (query key_ij + query key_jk), hidden where
    atten_mask [B, 1, N, 1, K] is True, times value_ij + value_jk. The statistics are float32 [B, H, N, M, 8]."""
    q, k1, v1, k2, v2 = (precise(x) for x in (query_ik, key_ij, value_ij, key_jk, value_jk))
    scores = torch.einsum("bhnmd,bhnkd->bhnmk", q, k1) + torch.einsum("bhnmd,bhkmd->bhnmk", q, k2)
    scores = scores * scale_value
    if atten_mask is not None:
        scores = scores.masked_fill(atten_mask.bool(), float("-inf"))
    most = scores.detach().amax(-1, keepdim=True).clamp(min=torch.finfo(scores.dtype).min)
    weights = (scores - most).exp()
    total = weights.sum(-1, keepdim=True)
    weights = weights / torch.where(total == 0, 1, total)
    out = torch.einsum("bhnmk,bhnkd->bhnmd", weights, v1) + torch.einsum("bhnmk,bhkmd->bhnmd", weights, v2)
    statistics = (x.detach().float().expand(*x.shape[:-1], 8) for x in (most, total))
    return *statistics, out.to(query_ik.dtype)


@precisely
def _attend(q, k, v, scale, hidden, pse, pse_first, sink=None, drop=None):
    """(out, maximum, sum) of BNSD tensors; the latter two are float32, [B, N, S, 1]."""
    dtype = q.dtype
    if k.size(2) == 0:  # a hidden key, because the maximum of no elements is an error
        k, v = (torch.cat((x, x.new_zeros(*x.shape[:2], 1, x.size(3))), 2) for x in (k, v))
        hidden, pse = torch.ones(1, 1, dtype=torch.bool, device=q.device), None
    if dtype in (torch.float16, torch.bfloat16):
        q, k, v = q.float(), k.float(), v.float()
        pse = None if pse is None else pse.float()
    if q.size(1) != k.size(1):
        shared = q.size(1) // k.size(1)
        k, v = k.repeat_interleave(shared, 1), v.repeat_interleave(shared, 1)
    scores = q @ k.transpose(-1, -2)
    scores = scores * scale if pse is None else (scores + pse) * scale if pse_first else scores * scale + pse
    if hidden is not None:
        scores = scores.masked_fill(hidden, float("-inf"))
    most = scores.detach().amax(-1, keepdim=True)
    if sink is not None:
        sink = sink.to(scores.dtype).view(1, -1, 1, 1)
        most = torch.maximum(most, sink.detach())
    most = most.clamp(min=torch.finfo(scores.dtype).min)
    weights = (scores - most).exp()
    total = weights.sum(-1, keepdim=True)
    if sink is not None:
        total = total + (sink - most).exp()
    weights = weights / torch.where(total == 0, 1, total)
    if drop is not None:
        weights = drop(weights)
    return (weights @ v).to(dtype), most.float(), total.detach().float()


def _train(name, q, k, v, heads, layout, pse, pse_first, mask, scale, keep, ends_q, ends_kv, sink, seed, offset):
    check(0 < keep <= 1, name, f"keep_prob is more than 0 and at most 1, not {keep}")
    dropped = [0]
    drop = _dropout(keep, seed, q.device, dropped) if keep < 1 else None
    if layout == "TND":
        check(ends_q is not None and ends_kv is not None, name, "the layout TND needs actual_seq_qlen and actual_seq_kvlen")
        check(pse is None, name, "pse is not offered for the layout TND; call it once per sequence, with the layout BSND")
        results = _packed(name, q, k, v, ends_q, ends_kv, mask, lambda *bnsd, hidden: _attend(
            *bnsd, scale, hidden, None, True, sink, drop
        ))  # fmt: skip
    else:
        bnsd = _split(name, q, k, v, heads, layout)
        hidden = mask(*bnsd[:2])
        out, most, total = _attend(*bnsd, scale, hidden, pse, pse_first, sink, drop)
        results = _joined(out, layout), most, total
    out, most, total = results
    return out, most.expand(*most.shape[:-1], 8), total.expand(*total.shape[:-1], 8), out.new_empty(0), seed, offset, dropped[0]


def _split(name, q, k, v, heads, layout):
    """BNSD views of query, key and value."""
    if layout not in ("BSH", "SBH", "BSND", "BNSD"):
        raise ValueError(f"{name}: the layout is BSH, SBH, BSND, BNSD or TND, not {layout}")
    check(q.dim() == len(layout), name, f"the layout {layout} has {len(layout)} dimensions, but query {q.dim()}")
    if layout in ("BSH", "SBH"):
        check(q.size(2) % heads == 0, name, f"{heads} heads do not divide {q.size(2)}, the last dimension of query")
        width = q.size(2) // heads
        check(k.size(2) % width == 0, name, f"heads of {width} do not divide {k.size(2)}, the last dimension of key")
        shared = k.size(2) // width
        q, k, v = q.unflatten(2, (heads, -1)), k.unflatten(2, (shared, -1)), v.unflatten(2, (shared, -1))
        order = (0, 2, 1, 3) if layout == "BSH" else (1, 2, 0, 3)
        q, k, v = q.permute(order), k.permute(order), v.permute(order)
    elif layout == "BSND":
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
    check(q.size(1) == heads, name, f"head_num is {heads}, but query has {q.size(1)} heads")
    check(heads % k.size(1) == 0, name, f"{k.size(1)} heads of key do not divide {heads} heads of query")
    return q, k, v


def _joined(out, layout):
    if layout == "BSH":
        return out.transpose(1, 2).flatten(2)
    if layout == "SBH":
        return out.permute(2, 0, 1, 3).flatten(2)
    return out.transpose(1, 2) if layout == "BSND" else out


def _packed(name, q, k, v, ends_q, ends_kv, mask, attend):
    """Attention of TND tensors, sequence by sequence; the statistics are [T, N, 1]."""
    check(len(ends_q) == len(ends_kv), name, f"{len(ends_q)} ends of queries, but {len(ends_kv)} ends of keys")
    parts = []
    first_q = first_kv = 0
    for batch, (last_q, last_kv) in enumerate(zip(ends_q, ends_kv, strict=True)):
        last_q, last_kv = int(last_q), int(last_kv)
        if last_q > first_q:
            own = [x.unsqueeze(0).transpose(1, 2) for x in (q[first_q:last_q], k[first_kv:last_kv], v[first_kv:last_kv])]
            hidden = mask(*own[:2], sequence=batch)
            parts.append([x.squeeze(0).transpose(0, 1) for x in attend(*own, hidden=hidden)])
        first_q, first_kv = max(first_q, last_q), max(first_kv, last_kv)
    check(first_q <= q.size(0), name, f"the last sequence ends at {first_q}, but query has {q.size(0)} tokens")
    check(first_kv <= k.size(0), name, f"the last sequence ends at {first_kv}, but key has {k.size(0)} tokens")
    if first_q < q.size(0) or not parts:
        rest, heads = q.size(0) - first_q, q.size(1)
        statistics = q.new_zeros((rest, heads, 1), dtype=torch.float32)
        parts.append([q.new_zeros(rest, heads, v.size(2)), statistics, statistics])
    return [torch.cat(part) for part in zip(*parts, strict=True)]


def _dropout(keep, seed, device, count):
    generator = torch.Generator(device).manual_seed(seed) if seed else None

    def drop(weights):
        count[0] += weights.numel()
        kept = torch.rand(weights.shape, device=device, generator=generator) < keep
        return weights * kept / keep

    return drop
