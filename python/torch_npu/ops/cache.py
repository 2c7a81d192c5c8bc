"""Paged caches of keys and values, and the step to the next generated token. The operators write in place."""

import torch

from ._define import check, op, refuse

_SCATTER = (
    " *, Tensor? compress_lens=None, Tensor? compress_seq_offsets=None, Tensor? seq_lens=None, str? cache_mode='PA_NZ') -> "
)


@op(
    "npu_scatter_pa_kv_cache(Tensor key, Tensor value, Tensor(a!) key_cache, Tensor(b!) value_cache, Tensor slot_mapping,"
    f"{_SCATTER}()"
)
def npu_scatter_pa_kv_cache(
    key,
    value,
    key_cache,
    value_cache,
    slot_mapping,
    *,
    compress_lens=None,
    compress_seq_offsets=None,
    seq_lens=None,
    cache_mode="PA_NZ",
):
    """Writes key and value, [T, N, D], into the slots slot_mapping [T] of the caches: pages [blocks, block, N, D] (cache_mode
    Norm or None), or [blocks, N D / piece, block, piece] (PA_NZ). A token with a negative slot is skipped."""
    name = "npu_scatter_pa_kv_cache"
    refuse(name, compress_lens=compress_lens, compress_seq_offsets=compress_seq_offsets, seq_lens=seq_lens)
    check(cache_mode in (None, "Norm", "PA_NZ"), name, f"cache_mode is Norm or PA_NZ, not {cache_mode}")
    write = write_pieces if cache_mode == "PA_NZ" else write_tokens
    for tokens, cache, of in ((key, key_cache, "key"), (value, value_cache, "value")):
        check(tokens.dim() == 3, name, f"{of} is [tokens, heads, dimensions], not {list(tokens.shape)}")
        check(tokens.dtype == cache.dtype, name, f"{of} is {tokens.dtype}, but its cache is {cache.dtype}")
        write(cache, slot_mapping, tokens, name)


@op(
    "npu_scatter_pa_kv_cache_functional(Tensor key, Tensor value, Tensor key_cache, Tensor value_cache, Tensor slot_mapping,"
    f"{_SCATTER}(Tensor, Tensor)"
)
def npu_scatter_pa_kv_cache_functional(key, value, key_cache, value_cache, slot_mapping, **options):
    """npu_scatter_pa_kv_cache into copies of the caches, which it returns."""
    caches = key_cache.clone(), value_cache.clone()
    npu_scatter_pa_kv_cache(key, value, *caches, slot_mapping, **options)
    return caches


@op(
    "npu_gather_pa_kv_cache(Tensor key_cache, Tensor value_cache, Tensor block_tables, Tensor seq_lens, Tensor(a!) key,"
    " Tensor(b!) value, *, Tensor? seq_offset=None, bool is_seq_lens_cumsum=False) -> ()"
)
def npu_gather_pa_kv_cache(
    key_cache, value_cache, block_tables, seq_lens, key, value, *, seq_offset=None, is_seq_lens_cumsum=False
):
    """Fills key and value [T, N, D] with the first seq_lens[b] tokens of each sequence, concatenated, from the pages
    block_tables[b] of [pages, block, N, D], or starting at the page of the token seq_offset[b]. With is_seq_lens_cumsum, sequence
    b has seq_lens[b + 1] - seq_lens[b] tokens. Missing pages give zeros; tokens after the sequences are not changed."""
    name = "npu_gather_pa_kv_cache"
    lengths = seq_lens.diff() if is_seq_lens_cumsum else seq_lens
    check(
        block_tables.dim() == 2 and lengths.numel() == block_tables.size(0),
        name,
        f"block_tables are [{lengths.numel()}, blocks], one row per sequence, not {list(block_tables.shape)}",
    )
    ends = lengths.long().cumsum(0)
    token = torch.arange(key.size(0), device=key.device)
    row = (token.unsqueeze(1) >= ends).sum(1)
    counts, row = row < ends.numel(), row.clamp(max=ends.numel() - 1)
    place = token - (ends - lengths)[row]
    for cache, filled in ((key_cache, key), (value_cache, value)):
        check(
            cache.dim() == 4 and cache.shape[2:] == filled.shape[1:], name, f"pages are {['pages', 'block', *filled.shape[1:]]}"
        )
        block = cache.size(1)
        column = place // block + (0 if seq_offset is None else seq_offset.long()[row] // block)
        page = block_tables[row, column.clamp(0, block_tables.size(1) - 1)].long()
        there = (column < block_tables.size(1)) & (page >= 0) & (page < cache.size(0))
        tokens = cache[page.clamp(0, cache.size(0) - 1), place % block]
        shape = (-1, *[1] * (filled.dim() - 1))
        tokens = torch.where(there.view(shape), tokens, 0)
        filled.copy_(torch.where(counts.view(shape), tokens, filled))


@op(
    "npu_gather_pa_kv_cache_functional(Tensor key_cache, Tensor value_cache, Tensor block_tables, Tensor seq_lens, Tensor key,"
    " Tensor value, *, Tensor? seq_offset=None, bool is_seq_lens_cumsum=False) -> (Tensor, Tensor)"
)
def npu_gather_pa_kv_cache_functional(key_cache, value_cache, block_tables, seq_lens, key, value, **options):
    """npu_gather_pa_kv_cache into copies of key and value, which it returns."""
    filled = key.clone(), value.clone()
    npu_gather_pa_kv_cache(key_cache, value_cache, block_tables, seq_lens, *filled, **options)
    return filled


@op(
    "npu_advance_step_flashattn(Tensor(a!) input_tokens, Tensor sampled_token_ids, Tensor(b!) input_positions,"
    " Tensor(c!) seq_lens, Tensor(d!) slot_mapping, Tensor block_tables, int num_seqs, int num_queries, int block_size, *,"
    " Tensor? spec_token=None, Tensor? accepted_num=None) -> ()"
)
def npu_advance_step_flashattn(
    input_tokens,
    sampled_token_ids,
    input_positions,
    seq_lens,
    slot_mapping,
    block_tables,
    num_seqs,
    num_queries,
    block_size,
    *,
    spec_token=None,
    accepted_num=None,
):
    """Advances num_seqs sequences by one token. The first num_queries get sampled_token_ids [num_queries, 1] at the position
    seq_lens, seq_lens grow by one, and slot_mapping is the slot of that position in block_tables [num_seqs, blocks]. The others
    get token and position 0 and the slot -1.

    With spec_token [num_seqs, n] each sequence gets 1 + n tokens: the last one of sampled_token_ids [num_seqs, 1 + n] before a
    -1, and spec_token. Positions grow by 1 + accepted_num; seq_lens are the positions plus one."""
    name = "npu_advance_step_flashattn"
    check(block_tables.dim() == 2 and block_tables.size(0) >= num_seqs, name, f"block_tables are [{num_seqs}, blocks]")
    if spec_token is not None:
        check(accepted_num is not None, name, "spec_token needs accepted_num")
        each = 1 + spec_token.size(1)
        check(
            tuple(sampled_token_ids.shape) == (num_seqs, each),
            name,
            f"sampled_token_ids are {[num_seqs, each]}, not {list(sampled_token_ids.shape)}",
        )
        last = (sampled_token_ids == -1).cumsum(1).eq(0).sum(1) - 1
        tokens = torch.cat((sampled_token_ids.gather(1, last.clamp(min=0).unsqueeze(1)), spec_token), 1)
        input_tokens.copy_(tokens.flatten())
        input_positions.add_(accepted_num.repeat_interleave(each) + 1)
        seq_lens.copy_(input_positions + 1)
        of = torch.arange(num_seqs, device=block_tables.device).repeat_interleave(each)
        slot_mapping.copy_(_slots(block_tables, of, input_positions, block_size))
        return
    check(num_queries <= num_seqs, name, f"{num_queries} queries are more than {num_seqs} sequences")
    position = seq_lens[:num_queries].clone()
    of = torch.arange(num_queries, device=block_tables.device)
    input_tokens[:num_queries] = sampled_token_ids.flatten()[:num_queries].to(input_tokens.dtype)
    input_positions[:num_queries] = position.to(input_positions.dtype)
    seq_lens[:num_queries] += 1
    slot_mapping[:num_queries] = _slots(block_tables, of, position, block_size).to(slot_mapping.dtype)
    input_tokens[num_queries:num_seqs] = 0
    input_positions[num_queries:num_seqs] = 0
    slot_mapping[num_queries:num_seqs] = -1


def write_tokens(cache, slots, values, operator):
    """Writes values [T, ...] into the slots [T] of pages [blocks, block, ...]; a negative slot is skipped."""
    if values.shape[1:].numel() == cache.shape[2:].numel():
        values = values.reshape(values.size(0), *cache.shape[2:])
    check(
        values.shape[1:] == cache.shape[2:],
        operator,
        f"a cache of tokens {list(values.shape[1:])} is {['blocks', 'block', *values.shape[1:]]}, not {list(cache.shape)}",
    )
    check(slots.numel() == values.size(0), operator, f"{values.size(0)} tokens, but {slots.numel()} slots")
    slots = slots.flatten().long()
    if slots.numel() == 0:
        return
    known = slots >= 0
    source = torch.where(known, torch.arange(slots.numel(), device=slots.device), known.int().argmax())
    slots, values, known = slots[source].clamp(min=0), values[source].to(cache.dtype), known[source]
    place = slots // cache.size(1), slots % cache.size(1)
    cache[place] = torch.where(known.view(-1, *[1] * (values.dim() - 1)), values, cache[place])


def write_pieces(cache, slots, values, operator):
    """write_tokens for pages whose tokens are split into pieces: [blocks, pieces, block, piece]."""
    check(cache.dim() == 4, operator, f"a cache in pieces is [blocks, pieces, block, piece], not {list(cache.shape)}")
    write_tokens(cache.transpose(1, 2), slots, values.flatten(1).unflatten(1, (-1, cache.size(3))), operator)


def _slots(tables, row, position, block_size):
    return tables[row, position.long() // block_size] * block_size + position % block_size
