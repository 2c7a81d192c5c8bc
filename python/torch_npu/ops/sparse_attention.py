"""Attention over selected keys: by the indices of npu_lightning_indexer, or by a mask of blocks."""

import torch

from .. import _hifloat8 as hifloat8
from . import dtypes
from ._define import check, op, refuse
from ._tokens import modes, read, visible
from .attention import _attend
from .indexer import chosen

_EVERYTHING = 2**63 - 1


@op(
    "npu_sparse_flash_attention(Tensor query, Tensor key, Tensor value, Tensor sparse_indices, float scale_value, *,"
    " Tensor? block_table=None, Tensor? actual_seq_lengths_query=None, Tensor? actual_seq_lengths_kv=None,"
    ' Tensor? query_rope=None, Tensor? key_rope=None, int sparse_block_size=1, str layout_query="BSND", str layout_kv="BSND",'
    " int sparse_mode=3, int pre_tokens=9223372036854775807, int next_tokens=9223372036854775807, int attention_mode=0,"
    " bool return_softmax_lse=False, Tensor? sinks=None) -> (Tensor, Tensor, Tensor)"
)
def npu_sparse_flash_attention(
    query,
    key,
    value,
    sparse_indices,
    scale_value,
    *,
    block_table=None,
    actual_seq_lengths_query=None,
    actual_seq_lengths_kv=None,
    query_rope=None,
    key_rope=None,
    sparse_block_size=1,
    layout_query="BSND",
    layout_kv="BSND",
    sparse_mode=3,
    pre_tokens=_EVERYTHING,
    next_tokens=_EVERYTHING,
    attention_mode=0,
    return_softmax_lse=False,
    sinks=None,
):
    """(out, softmax_max, softmax_sum): attention of each query to the keys in the blocks sparse_indices [..., N2, count]; -1 is
    no block. query_rope and key_rope (attention_mode 2) are additional dimensions of query and key. A sink per head is included
    in the softmax. Layouts and lengths are those of npu_lightning_indexer. The statistics, float32 [B, N2, S, N1 / N2] or [N2, T,
    N1 / N2], are empty unless return_softmax_lse."""
    name = "npu_sparse_flash_attention"
    check(attention_mode in (0, 2), name, f"attention_mode is 0 or 2, not {attention_mode}")
    check((query_rope is None) == (key_rope is None), name, "query_rope and key_rope come together")
    if query_rope is not None:
        query, key = torch.cat((query, query_rope), -1), torch.cat((key, key_rope), -1)
    out, most, total = _sparse(
        name, query, key, value, sparse_indices, scale_value, block_table, actual_seq_lengths_query, actual_seq_lengths_kv,
        sparse_block_size, layout_query, layout_kv, modes(sparse_mode, pre_tokens, next_tokens, name), sinks,
    )  # fmt: skip
    if not return_softmax_lse:
        return out, *(query.new_empty(0, dtype=torch.float32) for _ in range(2))
    groups = sparse_indices.size(-2)
    statistics = (x.squeeze(-1).unflatten(1, (groups, -1)).transpose(2, 3) for x in (most, total))
    return out, *(x[0] if layout_query == "TND" else x for x in statistics)


@op(
    "npu_kv_quant_sparse_flash_attention(Tensor query, Tensor key, Tensor value, Tensor sparse_indices, float scale_value,"
    " int key_quant_mode, int value_quant_mode, *, Tensor? key_dequant_scale=None, Tensor? value_dequant_scale=None,"
    " Tensor? block_table=None, Tensor? actual_seq_lengths_query=None, Tensor? actual_seq_lengths_kv=None,"
    ' int sparse_block_size=1, str layout_query="BSND", str layout_kv="BSND", int sparse_mode=3,'
    " int pre_tokens=9223372036854775807, int next_tokens=9223372036854775807, int attention_mode=0,"
    " int quant_scale_repo_mode=1, int tile_size=128, int rope_head_dim=64, int? key_dtype=None, int? value_dtype=None,"
    " Tensor? sinks=None) -> Tensor"
)
def npu_kv_quant_sparse_flash_attention(
    query,
    key,
    value,
    sparse_indices,
    scale_value,
    key_quant_mode,
    value_quant_mode,
    *,
    key_dequant_scale=None,
    value_dequant_scale=None,
    block_table=None,
    actual_seq_lengths_query=None,
    actual_seq_lengths_kv=None,
    sparse_block_size=1,
    layout_query="BSND",
    layout_kv="BSND",
    sparse_mode=3,
    pre_tokens=_EVERYTHING,
    next_tokens=_EVERYTHING,
    attention_mode=0,
    quant_scale_repo_mode=1,
    tile_size=128,
    rope_head_dim=64,
    key_dtype=None,
    value_dtype=None,
    sinks=None,
):
    """npu_sparse_flash_attention with a quantised key, that holds side by side, as bytes: the values (int8, float8_e4m3fn, or
    with key_dtype hifloat8), rope_head_dim more of query's dtype, and a float32 scale per tile_size values. The value is the
    first part of value, times its scales; query has rope_head_dim more dimensions than out."""
    name = "npu_kv_quant_sparse_flash_attention"
    refuse(name, key_dequant_scale=key_dequant_scale, value_dequant_scale=value_dequant_scale)
    check(key_quant_mode == value_quant_mode == 2, name, "key_quant_mode and value_quant_mode are 2 (per tile)")
    check(attention_mode in (0, 2), name, f"attention_mode is 2, not {attention_mode}")
    check(quant_scale_repo_mode == 1, name, f"quant_scale_repo_mode is 1 (scales behind the values), not {quant_scale_repo_mode}")
    width = query.size(-1) - rope_head_dim
    check(width % tile_size == 0, name, f"tiles of {tile_size} do not divide {width}, the dimensions of query without the rope")
    key = _dequantised(key, width, rope_head_dim, tile_size, query.dtype, dtypes.of(key_dtype), name)
    value = _dequantised(value, width, rope_head_dim, tile_size, query.dtype, dtypes.of(value_dtype), name)[..., :width]
    return _sparse(
        name, query, key, value, sparse_indices, scale_value, block_table, actual_seq_lengths_query, actual_seq_lengths_kv,
        sparse_block_size, layout_query, layout_kv, modes(sparse_mode, pre_tokens, next_tokens, name), sinks,
    )[0]  # fmt: skip


@op(
    "npu_block_sparse_attention(Tensor query, Tensor key, Tensor value, Tensor block_sparse_mask, int[] block_shape, *,"
    " str q_input_layout='TND', str kv_input_layout='TND', int num_key_value_heads=1, float scale_value=0.0,"
    " int inner_precise=1, int[]? actual_seq_lengths=None, int[]? actual_seq_lengths_kv=None, int? softmax_lse_flag=0)"
    " -> (Tensor, Tensor)"
)
def npu_block_sparse_attention(
    query,
    key,
    value,
    block_sparse_mask,
    block_shape,
    *,
    q_input_layout="TND",
    kv_input_layout="TND",
    num_key_value_heads=1,
    scale_value=0.0,
    inner_precise=1,
    actual_seq_lengths=None,
    actual_seq_lengths_kv=None,
    softmax_lse_flag=0,
):
    """(out, lse): attention where block_sparse_mask, [B, N, blocks of queries, blocks of keys], is not 0, for blocks of
    block_shape tokens. Layouts are BNSD, and TND with the lengths of the sequences. lse, float32 [B, N, S, 1] or [T, N, 1], the
    log of the softmax' sum, is zero unless softmax_lse_flag."""
    name = "npu_block_sparse_attention"
    layouts = (q_input_layout, kv_input_layout)
    check(layouts in (("TND", "TND"), ("BNSD", "BNSD")), name, f"both layouts are TND, or both are BNSD, not {layouts}")
    check(len(block_shape) >= 2 and min(block_shape) > 0, name, f"block_shape is two numbers above 0, not {list(block_shape)}")
    check((actual_seq_lengths is None) == (actual_seq_lengths_kv is None), name, "both lengths are given, or none")
    heads = key.size(1)
    check(heads == num_key_value_heads, name, f"num_key_value_heads is {num_key_value_heads}, but key has {heads} heads")
    if q_input_layout == "BNSD":
        q, k, v = query, key, value
        seen = _blocks(block_sparse_mask, block_shape, q.size(2), k.size(2))
        if actual_seq_lengths is not None:
            counts = [
                torch.arange(x.size(2), device=x.device) < torch.tensor(lengths, device=x.device).view(-1, 1, 1)
                for x, lengths in ((q, actual_seq_lengths), (k, actual_seq_lengths_kv))
            ]
            seen = seen & counts[0].unsqueeze(3) & counts[1].unsqueeze(2)
            v = v.masked_fill(~counts[1].unsqueeze(3), 0)  # values beyond the lengths may be NaN, and 0 times NaN is NaN
        out, most, total = _attend(q, k, v, scale_value, ~seen, None, False)
    else:
        check(actual_seq_lengths is not None, name, "the layout TND needs actual_seq_lengths and actual_seq_lengths_kv")
        parts, first_q, first_k = [], 0, 0
        for i, (size_q, size_k) in enumerate(zip(actual_seq_lengths, actual_seq_lengths_kv, strict=True)):
            q = query[first_q : first_q + size_q]
            k, v = (x[first_k : first_k + size_k] for x in (key, value))
            seen = _blocks(block_sparse_mask[i : i + 1], block_shape, size_q, size_k)
            results = _attend(*(x.transpose(0, 1)[None] for x in (q, k, v)), scale_value, ~seen, None, False)
            parts.append([x[0].transpose(0, 1) for x in results])
            first_q, first_k = first_q + size_q, first_k + size_k
        check(first_q == query.size(0), name, f"actual_seq_lengths add up to {first_q}, but query has {query.size(0)} tokens")
        out, most, total = (torch.cat(part) for part in zip(*parts, strict=True))
    lse = most + total.log()
    return out, lse if softmax_lse_flag else torch.zeros_like(lse)


def _blocks(mask, shape, queries, keys):
    wide = mask.bool().repeat_interleave(shape[0], 2).repeat_interleave(shape[1], 3)
    return wide[:, :, :queries, :keys]


def _sparse(name, query, key, value, indices, scale, table, lengths_q, lengths_kv, block, layout_q, layout_kv, causal, sinks):
    """(out in the layout of query, maximum, sum [B, N1, S, 1])."""
    check(indices.dim() == query.dim(), name, f"sparse_indices have {query.dim()} dimensions, as query, not {indices.dim()}")
    q = read(query, layout_q, lengths_q, name)
    k = read(key, layout_kv, lengths_kv, name, table, query)
    v = read(value, layout_kv, lengths_kv, name, table, query).x.masked_fill(~k.counts[..., None, None], 0)
    groups = k.x.size(2)
    check(indices.size(-2) == groups, name, f"key has {groups} heads, but sparse_indices have {indices.size(-2)}")
    seen = visible(q, k, causal).unsqueeze(1) & chosen(indices, k.place, q.x.shape[:2], block)
    seen = seen.repeat_interleave(q.x.size(2) // groups, 1)
    bnsd = (x.transpose(1, 2) for x in (q.x, k.x, v))
    out, most, total = _attend(*bnsd, scale, ~seen, None, False, sinks)
    return out.transpose(1, 2).reshape(*query.shape[:-1], v.size(-1)), most, total


def _dequantised(stored, width, rope, tile, dtype, number, name):
    size = width + rope * dtype.itemsize + 4 * (width // tile)
    check(stored.size(-1) == size, name, f"a quantised key has {size} bytes per token and head, not {stored.size(-1)}")
    values, turned, scales = stored.split([width, rope * dtype.itemsize, 4 * (width // tile)], -1)
    values = hifloat8.decode(values) if number == dtypes.HIFLOAT8 else values.float()
    scales = scales.contiguous().view(torch.float32).repeat_interleave(tile, -1)
    return torch.cat((values * scales, turned.contiguous().view(dtype).float()), -1).to(dtype)
