"""The lightning indexer, which scores keys for each query so that attention uses only the best of them, and its training.

The score of a key is the sum over heads of weights relu(query key). Layouts are BSND and TND, of keys also PA_BSND: pages by a
block_table. There is one head of keys. Scores are float32.
"""

import torch

from .. import _hifloat8 as hifloat8
from . import dtypes
from ._define import check, op, precisely, refuse
from ._tokens import modes, read, visible

_EVERYTHING = 2**63 - 1
_SMALL = 1e-8


@op(
    "npu_lightning_indexer(Tensor query, Tensor key, Tensor weights, *, Tensor? actual_seq_lengths_query=None,"
    ' Tensor? actual_seq_lengths_key=None, Tensor? block_table=None, str layout_query="BSND", str layout_key="BSND",'
    " int sparse_count=2048, int sparse_mode=3, int pre_tokens=9223372036854775807, int next_tokens=9223372036854775807,"
    " bool return_value=False) -> (Tensor, Tensor)"
)
@precisely
def npu_lightning_indexer(
    query,
    key,
    weights,
    *,
    actual_seq_lengths_query=None,
    actual_seq_lengths_key=None,
    block_table=None,
    layout_query="BSND",
    layout_key="BSND",
    sparse_count=2048,
    sparse_mode=3,
    pre_tokens=_EVERYTHING,
    next_tokens=_EVERYTHING,
    return_value=False,
):
    """(indices, values): int32 [..., 1, sparse_count], the positions of the keys with the highest scores in descending order,
    then -1; and their scores, then -inf. The scores are empty unless return_value."""
    name = "npu_lightning_indexer"
    q = read(query, layout_query, actual_seq_lengths_query, name)
    k = read(key, layout_key, actual_seq_lengths_key, name, block_table, query)
    causal = modes(sparse_mode, pre_tokens, next_tokens, name)
    places, values = _best(_scores(q, k, weights, causal, name)[0], k, sparse_count, name)
    shape = (*query.shape[:-2], 1, sparse_count)
    return places.reshape(shape), values.to(query.dtype).reshape(shape) if return_value else query.new_empty(0)


@op(
    "npu_quant_lightning_indexer(Tensor query, Tensor key, Tensor weights, Tensor query_dequant_scale,"
    " Tensor key_dequant_scale, int query_quant_mode, int key_quant_mode, *, Tensor? actual_seq_lengths_query=None,"
    ' Tensor? actual_seq_lengths_key=None, Tensor? block_table=None, str layout_query="BSND", str layout_key="BSND",'
    " int sparse_count=2048, int sparse_mode=3, int pre_tokens=9223372036854775807, int next_tokens=9223372036854775807,"
    " int? query_dtype=None, int? key_dtype=None) -> Tensor"
)
@precisely
def npu_quant_lightning_indexer(
    query,
    key,
    weights,
    query_dequant_scale,
    key_dequant_scale,
    query_quant_mode,
    key_quant_mode,
    *,
    actual_seq_lengths_query=None,
    actual_seq_lengths_key=None,
    block_table=None,
    layout_query="BSND",
    layout_key="BSND",
    sparse_count=2048,
    sparse_mode=3,
    pre_tokens=_EVERYTHING,
    next_tokens=_EVERYTHING,
    query_dtype=None,
    key_dtype=None,
):
    """The indices of npu_lightning_indexer for int8, float8 or (with query_dtype and key_dtype) hifloat8 query and key, each
    times its scale per token and head."""
    name = "npu_quant_lightning_indexer"
    check(query_quant_mode == key_quant_mode == 0, name, "query_quant_mode and key_quant_mode are 0 (per token and head)")
    q = read(_dequantised(query, query_dequant_scale, query_dtype, name), layout_query, actual_seq_lengths_query, name)
    k = _dequantised(key, key_dequant_scale, key_dtype, name)
    k = read(k, layout_key, actual_seq_lengths_key, name, block_table, query)
    causal = modes(sparse_mode, pre_tokens, next_tokens, name)
    places, _ = _best(_scores(q, k, weights, causal, name)[0], k, sparse_count, name)
    return places.reshape(*query.shape[:-2], 1, sparse_count)


@op(
    "npu_dense_lightning_indexer_softmax_lse(Tensor query_index, Tensor key_index, Tensor weights, *,"
    " SymInt[]? actual_seq_qlen=None, SymInt[]? actual_seq_klen=None, str? layout='BSND', int? sparse_mode=3,"
    " int? pre_tokens=9223372036854775807, int? next_tokens=9223372036854775807) -> (Tensor, Tensor)"
)
@precisely
def npu_dense_lightning_indexer_softmax_lse(
    query_index,
    key_index,
    weights,
    *,
    actual_seq_qlen=None,
    actual_seq_klen=None,
    layout="BSND",
    sparse_mode=3,
    pre_tokens=_EVERYTHING,
    next_tokens=_EVERYTHING,
):
    """(maximum, sum): of the softmax over the scores of all keys; float32 [B, 1, S], for TND [1, T]."""
    name = "npu_dense_lightning_indexer_softmax_lse"
    q, k = read(query_index, layout, actual_seq_qlen, name), read(key_index, layout, actual_seq_klen, name)
    scores, _ = _scores(q, k, weights, modes(sparse_mode, pre_tokens, next_tokens, name), name)
    most = scores.amax(-1, keepdim=True)
    total = (scores - most.clamp(min=torch.finfo(scores.dtype).min)).exp().sum(-1)
    most = most.squeeze(-1)
    return (most, total) if layout == "TND" else (most.unsqueeze(1), total.unsqueeze(1))


@op(
    "npu_dense_lightning_indexer_grad_kl_loss(Tensor query, Tensor key, Tensor query_index, Tensor key_index, Tensor weights,"
    " Tensor softmax_max, Tensor softmax_sum, Tensor softmax_max_index, Tensor softmax_sum_index, float scale_value, *,"
    " Tensor? query_rope=None, Tensor? key_rope=None, SymInt[]? actual_seq_qlen=None, SymInt[]? actual_seq_klen=None,"
    " str? layout='BSND', int? sparse_mode=3, int? pre_tokens=9223372036854775807, int? next_tokens=9223372036854775807)"
    " -> (Tensor, Tensor, Tensor, Tensor)"
)
@precisely
def npu_dense_lightning_indexer_grad_kl_loss(
    query,
    key,
    query_index,
    key_index,
    weights,
    softmax_max,
    softmax_sum,
    softmax_max_index,
    softmax_sum_index,
    scale_value,
    *,
    query_rope=None,
    key_rope=None,
    actual_seq_qlen=None,
    actual_seq_klen=None,
    layout="BSND",
    sparse_mode=3,
    pre_tokens=_EVERYTHING,
    next_tokens=_EVERYTHING,
):
    """(d_query_index, d_key_index, d_weights, loss): the divergence of the indexer's softmax over scores from the attention's
    softmax, averaged over heads, summed over queries, float32 [1]; and its gradients. Both softmaxes come as their maxima and
    sums, those of the attention as [B, N2, S, N1 / N2] or [N2, T, N1 / N2]."""
    name = "npu_dense_lightning_indexer_grad_kl_loss"
    q, k = read(query_index, layout, actual_seq_qlen, name), read(key_index, layout, actual_seq_klen, name)
    scores, relu = _scores(q, k, weights, modes(sparse_mode, pre_tokens, next_tokens, name), name)
    most, total = (each.reshape(*scores.shape[:2], 1) for each in (softmax_max_index, softmax_sum_index))
    predicted = torch.where(scores == float("-inf"), 0, (scores - most).exp() / total)
    target = _target(query, key, query_rope, key_rope, scores > float("-inf"), softmax_max, softmax_sum, scale_value)
    loss = (target * (target.clamp(min=_SMALL).log() - predicted.clamp(min=_SMALL).log())).sum()
    return *_gradients(q, k, weights, relu, predicted - target), loss.reshape(1)


@op(
    "npu_sparse_lightning_indexer_grad_kl_loss(Tensor query, Tensor key, Tensor query_index, Tensor key_index, Tensor weights,"
    " Tensor sparse_indices, Tensor softmax_max, Tensor softmax_sum, float scale_value, *, Tensor? query_rope=None,"
    " Tensor? key_rope=None, SymInt[]? actual_seq_qlen=None, SymInt[]? actual_seq_klen=None, str? layout='BSND',"
    " int? sparse_mode=3, int? pre_tokens=9223372036854775807, int? next_tokens=9223372036854775807, Tensor? sinks=None)"
    " -> (Tensor, Tensor, Tensor, Tensor)"
)
@precisely
def npu_sparse_lightning_indexer_grad_kl_loss(
    query,
    key,
    query_index,
    key_index,
    weights,
    sparse_indices,
    softmax_max,
    softmax_sum,
    scale_value,
    *,
    query_rope=None,
    key_rope=None,
    actual_seq_qlen=None,
    actual_seq_klen=None,
    layout="BSND",
    sparse_mode=3,
    pre_tokens=_EVERYTHING,
    next_tokens=_EVERYTHING,
    sinks=None,
):
    """npu_dense_lightning_indexer_grad_kl_loss over the keys of sparse_indices alone; the indexer's softmax is computed here."""
    name = "npu_sparse_lightning_indexer_grad_kl_loss"
    refuse(name, sinks=sinks)
    q, k = read(query_index, layout, actual_seq_qlen, name), read(key_index, layout, actual_seq_klen, name)
    scores, relu = _scores(q, k, weights, modes(sparse_mode, pre_tokens, next_tokens, name), name)
    scores = scores.masked_fill(~chosen(sparse_indices, k.place, q.x.shape[:2], 1)[:, 0], float("-inf"))
    seen = scores > float("-inf")
    predicted = torch.where(seen.any(-1, keepdim=True), scores, 0).softmax(-1).masked_fill(~seen, 0)
    target = _target(query, key, query_rope, key_rope, seen, softmax_max, softmax_sum, scale_value)
    loss = (target * (target.clamp(min=_SMALL).log() - predicted.clamp(min=_SMALL).log())).sum()
    return *_gradients(q, k, weights, relu, predicted - target), loss.reshape(1)


@op(
    "npu_lightning_indexer_grad(Tensor query, Tensor key, Tensor dy, Tensor sparse_indices, Tensor weights,"
    ' Tensor? actual_seq_lengths_query=None, Tensor? actual_seq_lengths_key=None, str? layout="BSND", int? sparse_mode=3,'
    " int? pre_tokens=9223372036854775807, int? next_tokens=9223372036854775807) -> (Tensor, Tensor, Tensor)"
)
@precisely
def npu_lightning_indexer_grad(
    query,
    key,
    dy,
    sparse_indices,
    weights,
    actual_seq_lengths_query=None,
    actual_seq_lengths_key=None,
    layout="BSND",
    sparse_mode=3,
    pre_tokens=_EVERYTHING,
    next_tokens=_EVERYTHING,
):
    """The gradients of the values of npu_lightning_indexer by query, key and weights, given its indices and the gradient dy of
    its values."""
    name = "npu_lightning_indexer_grad"
    check(dy.shape == sparse_indices.shape, name, f"dy {list(dy.shape)} is not like sparse_indices {list(sparse_indices.shape)}")
    q, k = read(query, layout, actual_seq_lengths_query, name), read(key, layout, actual_seq_lengths_key, name)
    scores, relu = _scores(q, k, weights, modes(sparse_mode, pre_tokens, next_tokens, name), name)
    indices = sparse_indices.reshape(*q.x.shape[:2], -1).long()
    count = k.place.size(1)
    sums = scores.new_zeros((*indices.shape[:2], count + 1))
    known = (indices >= 0) & (indices < count)
    sums = sums.scatter_add(-1, indices.where(known, count), dy.float().reshape(indices.shape))
    d_scores = sums.gather(-1, k.place.unsqueeze(1).expand_as(scores)).masked_fill(scores == float("-inf"), 0)
    return _gradients(q, k, weights, relu, d_scores)


def chosen(indices, place, queries, block):
    """bool [B, N2, S, keys]: whether the position of a key is in one of the blocks in indices [..., N2, count] of the query.
    Numbers without a block are ignored."""
    indices = indices.reshape(*queries, *indices.shape[-2:]).transpose(1, 2).long()
    count = place.size(1) // block + 2
    named = torch.zeros((*indices.shape[:3], count), dtype=torch.bool, device=indices.device)
    named = named.scatter(-1, indices.where((indices >= 0) & (indices < count), count - 1), True)
    named[..., -1] = False
    return named.gather(-1, (place // block)[:, None, None].expand(*indices.shape[:3], -1))


def _dequantised(x, scale, number, name):
    values = hifloat8.decode(x) if dtypes.of(number) == dtypes.HIFLOAT8 else x.float()
    fits = tuple(scale.shape) == tuple(x.shape[:-1])
    check(fits, name, f"a scale per token and head is {list(x.shape[:-1])}, not {list(scale.shape)}")
    return values * scale.float().unsqueeze(-1)


def _scores(q, k, weights, causal, name):
    """(scores [B, S, keys] with -inf where nothing is seen, relu(query key) [B, S, N, keys])."""
    check(k.x.size(2) == 1, name, f"keys have one head, not {k.x.size(2)}")
    heads = q.x.shape[:3]
    check(weights.numel() == heads.numel(), name, f"weights are one per query and head, {list(heads)}, not {list(weights.shape)}")
    relu = torch.einsum("bsnd,btd->bsnt", q.x.float(), k.x[:, :, 0].float()).relu()
    scores = (relu * weights.float().reshape(*heads, 1)).sum(2)
    return scores.masked_fill(~visible(q, k, causal), float("-inf")), relu


def _best(scores, k, count, name):
    check(count > 0, name, f"sparse_count is more than 0, not {count}")
    values, order = scores.sort(dim=-1, descending=True, stable=True)
    places = k.place.unsqueeze(1).expand_as(scores).gather(-1, order)
    places = torch.where(values == float("-inf"), -1, places)[..., :count].to(torch.int32)
    missing = (0, max(count - scores.size(-1), 0))
    pad = torch.nn.functional.pad
    return pad(places, missing, value=-1), pad(values[..., :count], missing, value=float("-inf"))


def _target(query, key, query_rope, key_rope, seen, most, total, scale):
    """[B, S, keys]: the attention's softmax, averaged over heads."""
    if query_rope is not None:
        query, key = torch.cat((query, query_rope), -1), torch.cat((key, key_rope), -1)
    batch, size = seen.shape[:2]
    query, key = query.float().reshape(batch, size, *query.shape[-2:]), key.float().reshape(batch, -1, *key.shape[-2:])
    grouped = query.unflatten(2, (key.size(2), -1))
    attention = torch.einsum("bsngd,btnd->bngst", grouped, key) * scale
    statistic = lambda x: x.float().reshape(batch, key.size(2), size, -1).transpose(2, 3).unsqueeze(-1)  # noqa: E731
    attention = (attention - statistic(most)).exp() / statistic(total)
    return torch.where(seen, attention.flatten(1, 2).mean(1), 0)


def _gradients(q, k, weights, relu, d_scores):
    """The gradients by query, key and weights, given that by the scores [B, S, keys]."""
    d_scores = d_scores.unsqueeze(2)
    d_weights = (d_scores * relu).sum(-1).reshape(weights.shape).to(weights.dtype)
    inner = d_scores * weights.float().reshape(*q.x.shape[:3], 1) * (relu > 0)
    d_query = torch.einsum("bsnt,btd->bsnd", inner, k.x[:, :, 0].float())
    d_key = torch.einsum("bsnt,bsnd->btd", inner, q.x.float()).unsqueeze(2)
    packed = weights.dim() == 2
    d_query, d_key = (x[0] if packed else x for x in (d_query, d_key))
    return d_query.to(q.x.dtype), d_key.to(k.x.dtype), d_weights
