"""Attention for inference, of prompts and of new tokens; layouts are those of attention.py, masks those of _mask.py.

The actual lengths of sequences are one number for all of them, or one for each; additional numbers are ignored. Tokens beyond the
lengths are not read and give zeros. Modes 1 to 4 need atten_mask, which is [2048, 2048] for 2 to 4.
"""

import itertools

import torch

from ._define import check, op, refuse
from ._mask import EVERYTHING, Mask, on_device
from .attention import _attend, _joined, _packed, _split

_OUT = "Tensor? workspace=None, Tensor(a!) attention_out, Tensor(b!) softmax_lse"


@op(
    "npu_prompt_flash_attention(Tensor query, Tensor key, Tensor value, *, Tensor? padding_mask=None, Tensor? atten_mask=None,"
    " Tensor? pse_shift=None, int[]? actual_seq_lengths=None, Tensor? deq_scale1=None, Tensor? quant_scale1=None,"
    " Tensor? deq_scale2=None, Tensor? quant_scale2=None, Tensor? quant_offset2=None, int num_heads=1, float scale_value=1.0,"
    ' int pre_tokens=2147483647, int next_tokens=0, str input_layout="BSH", int num_key_value_heads=0,'
    " int[]? actual_seq_lengths_kv=None, int sparse_mode=0) -> Tensor",
    called=lambda self, query, key, value, padding_mask, atten_mask, pse_shift, actual_seq_lengths, num_heads, scale_value,
    pre_tokens, next_tokens, input_layout, num_key_value_heads: ...,
)  # fmt: skip
def npu_prompt_flash_attention(
    query,
    key,
    value,
    *,
    padding_mask=None,
    atten_mask=None,
    pse_shift=None,
    actual_seq_lengths=None,
    deq_scale1=None,
    quant_scale1=None,
    deq_scale2=None,
    quant_scale2=None,
    quant_offset2=None,
    num_heads=1,
    scale_value=1.0,
    pre_tokens=EVERYTHING,
    next_tokens=0,
    input_layout="BSH",
    num_key_value_heads=0,
    actual_seq_lengths_kv=None,
    sparse_mode=0,
):
    """Attention of prompts, for inference: actual_seq_lengths and actual_seq_lengths_kv are the lengths of the sequences (for TND
    their ends). pse_shift is added after the scaling. The layout BNSD_BSND takes BNSD and returns BSND."""
    name = "npu_prompt_flash_attention"
    refuse(
        name,
        padding_mask=padding_mask,
        deq_scale1=deq_scale1,
        quant_scale1=quant_scale1,
        deq_scale2=deq_scale2,
        quant_scale2=quant_scale2,
        quant_offset2=quant_offset2,
    )
    mask = _prompt_mask(name, atten_mask, sparse_mode, pre_tokens, next_tokens)
    return _infer(
        name, query, key, value, num_heads, num_key_value_heads, input_layout, pse_shift, mask, scale_value, actual_seq_lengths,
        actual_seq_lengths_kv,
    )[0]  # fmt: skip


@op(
    "npu_incre_flash_attention(Tensor query, Tensor key, Tensor value, *, Tensor? padding_mask=None, Tensor? atten_mask=None,"
    " Tensor? pse_shift=None, SymInt[]? actual_seq_lengths=None, Tensor? antiquant_scale=None, Tensor? antiquant_offset=None,"
    " Tensor? block_table=None, Tensor? dequant_scale1=None, Tensor? quant_scale1=None, Tensor? dequant_scale2=None,"
    " Tensor? quant_scale2=None, Tensor? quant_offset2=None, Tensor? kv_padding_size=None, int num_heads=1,"
    ' float scale_value=1.0, str input_layout="BSH", int num_key_value_heads=0, int block_size=0, int inner_precise=1) -> Tensor',
    called=lambda self, query, key, value, padding_mask, atten_mask, pse_shift, actual_seq_lengths, num_heads, scale_value,
    input_layout, num_key_value_heads: ...,
)  # fmt: skip
def npu_incre_flash_attention(
    query,
    key,
    value,
    *,
    padding_mask=None,
    atten_mask=None,
    pse_shift=None,
    actual_seq_lengths=None,
    antiquant_scale=None,
    antiquant_offset=None,
    block_table=None,
    dequant_scale1=None,
    quant_scale1=None,
    dequant_scale2=None,
    quant_scale2=None,
    quant_offset2=None,
    kv_padding_size=None,
    num_heads=1,
    scale_value=1.0,
    input_layout="BSH",
    num_key_value_heads=0,
    block_size=0,
    inner_precise=1,
):
    """Attention of one new token per sequence; actual_seq_lengths are the lengths of key and value. With block_table,
    [B, blocks], key and value are pages: [pages, block_size, H], or [pages, N, block_size, D]."""
    name = "npu_incre_flash_attention"
    refuse(
        name,
        padding_mask=padding_mask,
        antiquant_scale=antiquant_scale,
        antiquant_offset=antiquant_offset,
        dequant_scale1=dequant_scale1,
        quant_scale1=quant_scale1,
        dequant_scale2=dequant_scale2,
        quant_scale2=quant_scale2,
        quant_offset2=quant_offset2,
        kv_padding_size=kv_padding_size,
    )
    mask = _mask_of_one_query(name, query, atten_mask, 1)
    return _infer(
        name, query, key, value, num_heads, num_key_value_heads, input_layout, pse_shift, mask, scale_value, None,
        actual_seq_lengths, block_table,
    )[0]  # fmt: skip


@op(
    "npu_fused_infer_attention_score(Tensor query, Tensor key, Tensor value, *, Tensor? pse_shift=None, Tensor? atten_mask=None,"
    " SymInt[]? actual_seq_lengths=None, SymInt[]? actual_seq_lengths_kv=None, Tensor? dequant_scale1=None,"
    " Tensor? quant_scale1=None, Tensor? dequant_scale2=None, Tensor? quant_scale2=None, Tensor? quant_offset2=None,"
    " Tensor? antiquant_scale=None, Tensor? antiquant_offset=None, Tensor? key_antiquant_scale=None,"
    " Tensor? key_antiquant_offset=None, Tensor? value_antiquant_scale=None, Tensor? value_antiquant_offset=None,"
    " Tensor? block_table=None, Tensor? query_padding_size=None, Tensor? kv_padding_size=None, Tensor? key_shared_prefix=None,"
    " Tensor? value_shared_prefix=None, SymInt[]? actual_shared_prefix_len=None, Tensor? query_rope=None, Tensor? key_rope=None,"
    " Tensor? key_rope_antiquant_scale=None, int num_heads=1, float scale=1.0, int pre_tokens=2147483647,"
    ' int next_tokens=2147483647, str input_layout="BSH", int num_key_value_heads=0, int sparse_mode=0, int inner_precise=0,'
    " int block_size=0, int antiquant_mode=0, int key_antiquant_mode=0, int value_antiquant_mode=0, bool softmax_lse_flag=False)"
    " -> (Tensor, Tensor)",
    out=_OUT,
)
def npu_fused_infer_attention_score(
    query,
    key,
    value,
    *,
    pse_shift=None,
    atten_mask=None,
    actual_seq_lengths=None,
    actual_seq_lengths_kv=None,
    block_table=None,
    query_rope=None,
    key_rope=None,
    num_heads=1,
    scale=1.0,
    pre_tokens=EVERYTHING,
    next_tokens=EVERYTHING,
    input_layout="BSH",
    num_key_value_heads=0,
    sparse_mode=0,
    inner_precise=0,
    block_size=0,
    antiquant_mode=0,
    key_antiquant_mode=0,
    value_antiquant_mode=0,
    softmax_lse_flag=False,
    **others,
):
    """(out, lse): attention of prompts or of new tokens, see npu_prompt_flash_attention and npu_incre_flash_attention; lse,
    the log of the softmax' sum, [B, N, S, 1] or [T, N, 1] in float32, is empty unless softmax_lse_flag, and -inf of a query that
    sees no key. query_rope and key_rope are more dimensions of query and key. With one query per sequence and without them
    sparse_mode, pre_tokens and next_tokens have no effect, and atten_mask may be [B, keys]. A layout like BNSD_BSND names that of
    query and that of out; out may also be NBSD, and NTD of TND. With block_table and TND the lengths of keys are those of each
    sequence, not ends."""
    name = "npu_fused_infer_attention_score"
    refuse(name, **others)
    if query_rope is None and _has_one_query(query, input_layout):
        mask = _mask_of_one_query(name, query, atten_mask, sparse_mode)
    else:
        mask = _prompt_mask(name, atten_mask, sparse_mode, pre_tokens, next_tokens)
    out, lse = _infer(
        name, query, key, value, num_heads, num_key_value_heads, input_layout, pse_shift, mask, scale, actual_seq_lengths,
        actual_seq_lengths_kv, block_table, (query_rope, key_rope),
    )  # fmt: skip
    return out, lse if softmax_lse_flag else lse.new_empty(0)


@op(
    "npu_fused_infer_attention_score_v2(Tensor query, Tensor key, Tensor value, *, Tensor? query_rope=None,"
    " Tensor? key_rope=None, Tensor? pse_shift=None, Tensor? atten_mask=None, SymInt[]? actual_seq_qlen=None,"
    " SymInt[]? actual_seq_kvlen=None, Tensor? block_table=None, Tensor? dequant_scale_query=None,"
    " Tensor? dequant_scale_key=None, Tensor? dequant_offset_key=None, Tensor? dequant_scale_value=None,"
    " Tensor? dequant_offset_value=None, Tensor? dequant_scale_key_rope=None, Tensor? quant_scale_out=None,"
    " Tensor? quant_offset_out=None, Tensor? quant_scale_p=None, Tensor? learnable_sink=None, int num_query_heads=1,"
    " int num_key_value_heads=0, float softmax_scale=1.0, int pre_tokens=2147483647, int next_tokens=2147483647,"
    ' str input_layout="BSH", int sparse_mode=0, int block_size=0, int query_quant_mode=0, int key_quant_mode=0,'
    " int value_quant_mode=0, int inner_precise=0, bool return_softmax_lse=False, int? query_dtype=None, int? key_dtype=None,"
    " int? value_dtype=None, int? query_rope_dtype=None, int? key_rope_dtype=None, int? key_shared_prefix_dtype=None,"
    " int? value_shared_prefix_dtype=None, int? dequant_scale_query_dtype=None, int? dequant_scale_key_dtype=None,"
    " int? dequant_scale_value_dtype=None, int? dequant_scale_key_rope_dtype=None, int? out_dtype=None) -> (Tensor, Tensor)",
    out=_OUT,
)
def npu_fused_infer_attention_score_v2(
    query,
    key,
    value,
    *,
    query_rope=None,
    key_rope=None,
    pse_shift=None,
    atten_mask=None,
    actual_seq_qlen=None,
    actual_seq_kvlen=None,
    block_table=None,
    learnable_sink=None,
    num_query_heads=1,
    num_key_value_heads=0,
    softmax_scale=1.0,
    pre_tokens=EVERYTHING,
    next_tokens=EVERYTHING,
    input_layout="BSH",
    sparse_mode=0,
    block_size=0,
    query_quant_mode=0,
    key_quant_mode=0,
    value_quant_mode=0,
    inner_precise=0,
    return_softmax_lse=False,
    **others,
):
    """npu_fused_infer_attention_score by other names; a learnable_sink per head takes part in the softmax."""
    name = "npu_fused_infer_attention_score_v2"
    refuse(name, **others)
    if query_rope is None and _has_one_query(query, input_layout):
        mask = _mask_of_one_query(name, query, atten_mask, sparse_mode)
    else:
        mask = _prompt_mask(name, atten_mask, sparse_mode, pre_tokens, next_tokens)
    out, lse = _infer(
        name, query, key, value, num_query_heads, num_key_value_heads, input_layout, pse_shift, mask, softmax_scale,
        actual_seq_qlen, actual_seq_kvlen, block_table, (query_rope, key_rope), learnable_sink,
    )  # fmt: skip
    return out, lse if return_softmax_lse else lse.new_empty(0)


def _has_one_query(query, layout):
    return query.dim() >= 3 and "T" not in layout and query.size(2 if layout.startswith("BNSD") else 1) == 1


def _prompt_mask(name, mask, mode, before, after):
    _check_mode(name, mode)
    if mode > 0:
        wanted = "covers all queries and keys" if mode == 1 else "is [2048, 2048]"
        check(mask is not None, name, f"sparse_mode {mode} needs an atten_mask that {wanted}")
    if mode > 1:
        check(_is_compressed(mask), name, f"sparse_mode {mode} needs an atten_mask that is [2048, 2048], not {list(mask.shape)}")
    return Mask(name, mask, mode, before, after)


def _mask_of_one_query(name, query, mask, mode):
    """A compressed mask hides nothing from the last query; another mask is used unchanged."""
    _check_mode(name, mode)
    if mask is not None and mode > 1 and _is_compressed(mask):
        mask = None
    if mask is not None and mask.dim() == 2 and mask.size(0) == query.size(0):
        mask = mask[:, None, None]
    return Mask(name, mask, 1, EVERYTHING, EVERYTHING)


def _check_mode(name, mode):
    check(0 <= mode <= 4, name, f"sparse_mode is 0 to 4, not {mode}")


def _is_compressed(mask):
    return mask.shape[-2:] == (2048, 2048)


def _lengths(name, given, x, what):
    """The actual length of each sequence of a BNSD tensor, or None."""
    if given is None:
        return None
    batch, longest = x.size(0), x.size(2)
    given = [int(n) for n in given]
    if what == "query" and longest == 1:
        given = [min(n, 1) for n in given]  # with one query the length is 0 or 1
    lengths = given * batch if len(given) == 1 else given[:batch]
    check(
        len(lengths) == batch, name, f"{len(given)} actual lengths of {what} are given for {batch} sequences; give 1 or {batch}"
    )
    wrong = [n for n in lengths if not 0 <= n <= longest]
    check(
        not wrong,
        name,
        f"the actual lengths of {what} are 0 to {longest}, the tokens that there are, but {wrong[0] if wrong else None} is given",
    )
    return lengths


def _infer(
    name, q, k, v, heads, kv_heads, layout, pse, mask, scale, lengths_q, lengths_kv, table=None, rope=(None, None), sink=None
):
    """(out, log of the softmax' sum)."""
    given, _, wanted = layout.partition("_")
    check(
        layout in ("BSH", "BSND", "BNSD", "TND", "BNSD_BSND", "BSH_NBSD", "BSND_NBSD", "BNSD_NBSD", "TND_NTD", "NTD_TND"),
        name,
        f"the layout is BSH, BSND, BNSD or TND, or BNSD_BSND, BSH_NBSD, BSND_NBSD, BNSD_NBSD, TND_NTD or NTD_TND, not {layout}",
    )
    check((rope[0] is None) == (rope[1] is None), name, "query_rope and key_rope come together")
    if given == "NTD":
        check(table is None, name, "the layout NTD_TND does not go with block_table")
        q, k, v, *rope = (x if x is None else x.transpose(0, 1) for x in (q, k, v, *rope))
        given = "TND"
    if table is not None:
        check(lengths_kv is not None, name, "block_table needs the actual lengths of the keys")
        shared = kv_heads or heads
        table = _used(table, lengths_kv, k.size(1 if k.dim() == 3 else 2))
        k, v, key_rope = (x if x is None else _unpaged(x, table, given, shared) for x in (k, v, rope[1]))
        rope = rope[0], key_rope
        if given == "TND":
            k, v, key_rope = (x if x is None else _laid_out(x, lengths_kv) for x in (k, v, key_rope))
            rope, lengths_kv = (rope[0], key_rope), list(itertools.accumulate(int(n) for n in lengths_kv))
    if rope[0] is not None:
        q, k = (_wider(x, more, n, given) for x, more, n in ((q, rope[0], heads), (k, rope[1], kv_heads or heads)))
    if given == "TND":
        check(lengths_q is not None and lengths_kv is not None, name, "the layout TND needs the ends of queries and of keys")
        check(pse is None, name, "pse_shift is not offered for the layout TND; call it once per sequence, with the layout BSND")
        out, most, total = _packed(
            name, q, k, v, lengths_q, lengths_kv, mask, lambda *bnsd, hidden: _attend(*bnsd, scale, hidden, None, False, sink)
        )
        return out.transpose(0, 1) if wanted == "NTD" else out, most + total.log()
    q, k, v = _split(name, q, k, v, heads, given)
    check(not kv_heads or k.size(1) == kv_heads, name, f"num_key_value_heads is {kv_heads}, but key has {k.size(1)} heads")
    lengths_q, lengths_kv = _lengths(name, lengths_q, q, "query"), _lengths(name, lengths_kv, k, "key")
    if lengths_kv is not None:
        v = v.masked_fill(_beyond(lengths_kv, v), 0)  # the value may be NaN, and 0 times NaN is NaN
    if pse is not None:
        pse = pse[..., : q.size(2), : k.size(2)]
    out, most, total = _attend(q, k, v, scale, mask(q, k, lengths=(lengths_q, lengths_kv)), pse, False, sink)
    lse = most + total.log()
    if lengths_q is not None:
        beyond = _beyond(lengths_q, q)
        out, lse = out.masked_fill(beyond, 0), lse.masked_fill(beyond, float("-inf"))
    return out.transpose(0, 1) if wanted == "NBSD" else _joined(out, wanted or given), lse


def _beyond(lengths, x):
    """bool [B, 1, S, 1]: True for tokens of a BNSD tensor beyond the actual lengths."""
    lengths = on_device(lengths, x.device).view(-1, 1, 1, 1)
    return torch.arange(x.size(2), device=x.device).view(-1, 1) >= lengths


def _wider(x, more, heads, layout):
    """x with additional dimensions per head."""
    if layout != "BSH":
        return torch.cat((x, more), -1)
    return torch.cat((x.unflatten(2, (heads, -1)), more.unflatten(2, (heads, -1))), -1).flatten(2)


def _laid_out(sequences, lengths):
    """TND: the first tokens of sequences [B, S, N, D], concatenated."""
    return torch.cat([sequences[:0].flatten(0, 1), *(sequences[i, : int(n)] for i, n in enumerate(lengths))])


def _used(table, lengths, page):
    """A table of pages, with page 0 for entries beyond the lengths, which may be uninitialised."""
    lengths = [int(n) for n in lengths][: table.size(0)]
    if len(lengths) not in (1, table.size(0)):
        return table.long()  # _lengths() raises for these
    begins = torch.arange(table.size(1), device=table.device) * page
    return table.long().masked_fill(begins >= torch.tensor(lengths, device=table.device).unsqueeze(1), 0)


def _unpaged(pages, table, layout, heads):
    """The sequences that a table of pages describes, in the layout of the query; BSND for TND."""
    found = pages[table]
    if pages.dim() == 3:
        found = found.flatten(1, 2)
        if layout == "BSH":
            return found
        found = found.unflatten(2, (heads, -1))
        return found.transpose(1, 2) if layout == "BNSD" else found
    found = found.transpose(1, 2).flatten(2, 3)
    if layout == "BNSD":
        return found
    found = found.transpose(1, 2)
    return found.flatten(2) if layout == "BSH" else found
