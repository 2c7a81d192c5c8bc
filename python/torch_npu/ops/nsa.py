"""Native sparse attention: keys are compressed, attention to them gives scores of key blocks, and attention uses the best blocks.
Tensors are TND: sequences are concatenated."""

import itertools

import torch

from ._define import check, op, precise, precisely
from ._tokens import read, visible
from .attention import _attend
from .indexer import chosen


@op(
    "npu_nsa_compress(Tensor input, Tensor weight, int compress_block_size, int compress_stride, *,"
    " int[]? actual_seq_len=None) -> Tensor"
)
@precisely
def npu_nsa_compress(input, weight, compress_block_size, compress_stride, *, actual_seq_len=None):
    """[blocks, N, D]: for each sequence (ends in actual_seq_len) the sums of weight [compress_block_size, N] times
    compress_block_size tokens of input [T, N, D]; a block starts every compress_stride tokens."""
    name = "npu_nsa_compress"
    fits = input.dim() == 3 and tuple(weight.shape) == (compress_block_size, input.size(1))
    check(fits, name, f"input is [T, N, D] and weight [{compress_block_size}, N], not {list(input.shape)}, {list(weight.shape)}")
    ends = [input.size(0)] if actual_seq_len is None else [int(end) for end in actual_seq_len]
    parts = []
    for start, end in itertools.pairwise([0, *ends]):
        if end - start >= compress_block_size:
            blocks = precise(input[start:end]).unfold(0, compress_block_size, compress_stride)
            parts.append(torch.einsum("bndk,kn->bnd", blocks, precise(weight)))
    return torch.cat(parts).to(input.dtype) if parts else input.new_empty(0, *input.shape[1:])


@op(
    "npu_nsa_compress_infer.cache(Tensor input, Tensor weight, Tensor slot_mapping, int compress_block_size,"
    " int compress_stride, int page_block_size, *, Tensor? block_table=None, int[]? actual_seq_len=None, Tensor(a!) cache)"
    " -> Tensor(a!)"
)
@precisely
def npu_nsa_compress_infer(
    input,
    weight,
    slot_mapping,
    compress_block_size,
    compress_stride,
    page_block_size,
    *,
    block_table=None,
    actual_seq_len=None,
    cache,
):
    """cache [slots, N, D]. If the last token of sequence b ends a block, slot_mapping[b] gets npu_nsa_compress of that block. The
    actual_seq_len[b] tokens of the sequence are in the pages block_table[b] of input [pages, page_block_size, N, D]."""
    name = "npu_nsa_compress_infer"
    check(block_table is not None and actual_seq_len is not None, name, "block_table and actual_seq_len are needed")
    check(input.size(1) == page_block_size, name, f"a page has {page_block_size} tokens, but input is {list(input.shape)}")
    for i, size in enumerate(actual_seq_len):
        if size >= compress_block_size and (size - compress_block_size) % compress_stride == 0:
            tokens = input[block_table[i].long().clamp(min=0)].flatten(0, 1)[size - compress_block_size : size]
            cache[slot_mapping[i].long()] = (precise(tokens) * precise(weight).unsqueeze(-1)).sum(0).to(cache.dtype)
    return cache


@op(
    "npu_nsa_select_attention(Tensor query, Tensor key, Tensor value, Tensor topk_indices, float scale_value, int head_num,"
    " int select_block_size, int select_block_count, *, Tensor? atten_mask=None, int[]? actual_seq_qlen=None,"
    " int[]? actual_seq_kvlen=None) -> (Tensor, Tensor, Tensor)"
)
def npu_nsa_select_attention(
    query,
    key,
    value,
    topk_indices,
    scale_value,
    head_num,
    select_block_size,
    select_block_count,
    *,
    atten_mask=None,
    actual_seq_qlen=None,
    actual_seq_kvlen=None,
):
    """(out, softmax_max, softmax_sum): attention of query [T, N1, D] to the blocks of select_block_size keys that topk_indices
    [T, N2, select_block_count] name. atten_mask [S1, S2] hides where it is True. The statistics are float32 [T, N1, 8]."""
    name = "npu_nsa_select_attention"
    check(query.size(1) == head_num, name, f"head_num is {head_num}, but query has {query.size(1)} heads")
    check(actual_seq_qlen is not None and actual_seq_kvlen is not None, name, "actual_seq_qlen and actual_seq_kvlen are needed")
    shape = (query.size(0), key.size(1), select_block_count)
    check(tuple(topk_indices.shape) == shape, name, f"topk_indices are {list(shape)}, not {list(topk_indices.shape)}")
    q, k = read(query, "TND", actual_seq_qlen, name), read(key, "TND", actual_seq_kvlen, name)
    seen = visible(q, k, causal=False)
    if atten_mask is not None:
        seen = seen & ~atten_mask.bool()[q.place[0].unsqueeze(1), k.place[0]]
    seen = seen.unsqueeze(1) & chosen(topk_indices, k.place, q.x.shape[:2], select_block_size)
    seen = seen.repeat_interleave(head_num // key.size(1), 1)
    value = value.masked_fill(~k.counts.view(-1, 1, 1), 0)  # values after the last sequence may be NaN, and 0 times NaN is NaN
    bnsd = (x.transpose(0, 1)[None] for x in (query, key, value))
    out, most, total = (x[0].transpose(0, 1) for x in _attend(*bnsd, scale_value, ~seen, None, False))
    return out, most.expand(-1, -1, 8), total.expand(-1, -1, 8)


@op(
    "npu_nsa_compress_attention(Tensor query, Tensor key, Tensor value, float scale_value, int head_num,"
    " int compress_block_size, int compress_stride, int select_block_size, int select_block_count, *, Tensor? topk_mask=None,"
    " Tensor? atten_mask=None, int[]? actual_seq_qlen=None, int[]? actual_cmp_seq_kvlen=None,"
    " int[]? actual_sel_seq_kvlen=None) -> (Tensor, Tensor, Tensor, Tensor)"
)
def npu_nsa_compress_attention(
    query,
    key,
    value,
    scale_value,
    head_num,
    compress_block_size,
    compress_stride,
    select_block_size,
    select_block_count,
    *,
    topk_mask=None,
    atten_mask=None,
    actual_seq_qlen=None,
    actual_cmp_seq_kvlen=None,
    actual_sel_seq_kvlen=None,
):
    """(out, topk_indices, softmax_max, softmax_sum): attention of query [T, N1, D] to compressed keys [., N2, D], and the
    select_block_count blocks of select_block_size keys, int32 [T, N2, .], for which the softmax weights of the compressed keys
    that overlap them, summed over overlaps and the heads that share a head of keys, are highest, in descending order. Sequences
    end at actual_seq_qlen, actual_cmp_seq_kvlen and, in blocks, actual_sel_seq_kvlen. atten_mask [S1, .] hides where it is True;
    topk_mask [S1, blocks] names blocks that are always chosen. The statistics are float32 [T, N1, 8]."""
    name = "npu_nsa_compress_attention"
    check(query.size(1) == head_num, name, f"head_num is {head_num}, but query has {query.size(1)} heads")
    ends = actual_seq_qlen, actual_cmp_seq_kvlen, actual_sel_seq_kvlen
    check(
        all(each is not None for each in ends), name, "actual_seq_qlen, actual_cmp_seq_kvlen and actual_sel_seq_kvlen are needed"
    )
    strides = select_block_size % compress_stride == 0 == compress_block_size % compress_stride
    check(strides, name, f"compress_stride {compress_stride} does not divide {select_block_size} and {compress_block_size}")
    per_block, overlap = select_block_size // compress_stride, compress_block_size // compress_stride
    parts = []
    bounds = [[0, *(int(end) for end in each)] for each in ends]
    for i in range(len(bounds[0]) - 1):
        q, k, v = (
            x[of[i] : of[i + 1]].transpose(0, 1)[None]
            for x, of in zip((query, key, value), bounds[:1] + 2 * bounds[1:2], strict=True)
        )
        hidden = None if atten_mask is None else atten_mask.bool()[: q.size(2), : k.size(2)]
        out, most, total = _attend(q, k, v, scale_value, hidden, None, False)
        blocks = bounds[2][i + 1] - bounds[2][i]
        if q.size(2) == 0:
            best = query.new_empty((1, key.size(1), 0, select_block_count), dtype=torch.int32)
            parts.append([x[0].transpose(0, 1) for x in (out, best, most, total)])
            continue
        check(
            blocks >= select_block_count,
            name,
            f"sequence {i} has {blocks} blocks, fewer than select_block_count {select_block_count}",
        )
        score = _importance(q, k, scale_value, hidden, most, total, blocks, per_block, overlap)
        if topk_mask is not None:
            score = score.masked_fill(topk_mask.bool()[: q.size(2), :blocks], float("inf"))
        best = score.argsort(dim=-1, descending=True, stable=True)[..., :select_block_count].to(torch.int32)
        parts.append([x[0].transpose(0, 1) for x in (out, best, most, total)])
    out, best, most, total = (torch.cat(part) for part in zip(*parts, strict=True))
    return out, best, most.expand(-1, -1, 8), total.expand(-1, -1, 8)


def _importance(q, k, scale, hidden, most, total, blocks, per_block, overlap):
    """[1, N2, S, blocks]: the sum over the compressed keys (b + 1) per_block - j that overlap block b, for j from 0 to per_block
    + overlap - 2, weighted by the number of overlaps."""
    shared = q.size(1) // k.size(1)
    scores = precise(q) @ precise(k).repeat_interleave(shared, 1).mT * scale
    scores = scores if hidden is None else scores.masked_fill(hidden, float("-inf"))
    weights = ((scores - most).exp() / torch.where(total == 0, 1, total)).unflatten(1, (-1, shared)).sum(2)
    width = per_block + overlap - 1
    times = [min(j + 1 if j < width / 2 else width - j, overlap) for j in range(width)]
    place = (torch.arange(blocks, device=q.device).unsqueeze(1) + 1) * per_block - torch.arange(width, device=q.device)
    known = (place >= 0) & (place < k.size(2))
    met = weights[..., place.clamp(0, k.size(2) - 1)].masked_fill(~known, 0)
    return (met * torch.tensor(times, device=q.device, dtype=weights.dtype)).sum(-1)
