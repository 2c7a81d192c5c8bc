"""Masks of attention operators (modes, lengths, pages, layouts), compared with a loop over queries and keys."""

import itertools
import math

import pytest
import torch
import torch_npu

from tests.compare import assert_close
from tests.support import rand

B, N, D, QUERIES, KEYS, BLOCK = 3, 4, 6, 5, 8, 2
BEFORE, AFTER = 2, 1
COMPRESSED = torch.ones(2048, 2048, dtype=torch.bool).triu(1)
LENGTHS_Q = {"all": None, "one": [4], "each": [3, 5, 0], "more": [3, 5, 0, 9]}
LENGTHS_KV = {"all": None, "one": [6], "each": [4, 8, 2], "empty": [0, 7, 3]}


def sees(mode, i, j, queries, keys, hidden, before=BEFORE, after=AFTER):
    """Whether query i of a sequence sees key j, from the definition of the mode; `hidden` is None without a mask."""
    if hidden is None:
        return True
    last = i + keys - queries
    return {
        0: lambda: not hidden[i, j] and i - before <= j <= i + after,
        1: lambda: not hidden[i, j],
        2: lambda: j <= i,
        3: lambda: j <= last,
        4: lambda: last - before <= j <= last + after,
    }[mode]()


def reference(q, k, v, scale, mode, masks, queries, keys, **window):
    """Attention of BNSD tensors, of which queries[b] and keys[b] tokens are valid; masks[b] is [queries, keys] or None."""
    out = torch.zeros(*q.shape[:3], v.size(3), dtype=q.dtype)
    shared = q.size(1) // k.size(1)
    for b, n, i in itertools.product(range(q.size(0)), range(q.size(1)), range(q.size(2))):
        if i >= queries[b]:
            continue
        seen = [j for j in range(keys[b]) if sees(mode, i, j, queries[b], keys[b], masks[b], **window)]
        if seen:
            weights = (scale * (k[b, n // shared, seen] @ q[b, n, i])).softmax(0)
            out[b, n, i] = weights @ v[b, n // shared, seen]
    return out


def as_layout(x, layout):
    if layout == "BNSD":
        return x.contiguous()
    x = x.transpose(1, 2)
    return x.flatten(2) if layout == "BSH" else x.contiguous()


def spread(lengths, size, batch=B):
    if lengths is None:
        return [size] * batch
    return lengths * batch if len(lengths) == 1 else lengths[:batch]


def in_pages(x, layout, heads_first):
    """(pages, table) of a BNSD tensor: each block of a sequence has its own page; unused pages are NaN."""
    batch, heads, keys, width = x.shape
    blocks = keys // BLOCK
    order = torch.randperm(batch * blocks + 2, generator=torch.Generator().manual_seed(3))[: batch * blocks]
    pages = torch.full((batch * blocks + 2, heads, BLOCK, width), math.nan, dtype=x.dtype)
    pages[order] = x.unflatten(2, (blocks, BLOCK)).transpose(1, 2).flatten(0, 1)
    table = torch.cat((order.view(batch, blocks), torch.full((batch, 1), -1)), 1).int()
    return pages if heads_first else pages.transpose(1, 2).flatten(2), table


CALLS = {
    "prompt": lambda *x, heads, shared, scale, lengths_q, lengths_kv, table, **options: torch_npu.npu_prompt_flash_attention(
        *x, num_heads=heads, num_key_value_heads=shared, scale_value=scale, actual_seq_lengths=lengths_q,
        actual_seq_lengths_kv=lengths_kv, **options,
    ),
    "fused": lambda *x, heads, shared, scale, lengths_q, lengths_kv, table, **options: torch_npu.npu_fused_infer_attention_score(
        *x, num_heads=heads, num_key_value_heads=shared, scale=scale, actual_seq_lengths=lengths_q,
        actual_seq_lengths_kv=lengths_kv, block_table=table, block_size=BLOCK if table is not None else 0, **options,
    )[0],
    "fused_v2": lambda *x, heads, shared, scale, lengths_q, lengths_kv, table, **options:
        torch_npu.npu_fused_infer_attention_score_v2(
            *x, num_query_heads=heads, num_key_value_heads=shared, softmax_scale=scale, actual_seq_qlen=lengths_q,
            actual_seq_kvlen=lengths_kv, block_table=table, block_size=BLOCK if table is not None else 0, **options,
        )[0],
}  # fmt: skip


def inputs(shared=2):
    """Query, key and value in BNSD, without NaN, and masks for modes 0 and 1, one per sequence."""
    hidden = torch.rand(B, QUERIES, KEYS, generator=torch.Generator().manual_seed(1)) > 0.6
    return rand(B, N, QUERIES, D), rand(B, shared, KEYS, D, seed=1), rand(B, shared, KEYS, D, seed=2), hidden


def check_case(call, layout, mode, lengths_q, lengths_kv, pages=None, shared=2, masked=True):
    q, k, v, hidden = inputs(shared)
    queries, keys = spread(lengths_q, QUERIES), spread(lengths_kv, KEYS)
    expected = reference(q, k, v, 0.3, mode, hidden if masked else [None] * B, queries, keys)
    table = None
    if pages is not None:
        (k, table), (v, _) = in_pages(k, layout, pages), in_pages(v, layout, pages)
        table = table.npu()
    else:
        for b in range(B):  # values beyond the lengths must not be read
            k[b, :, keys[b] :] = v[b, :, keys[b] :] = math.nan
        k, v = as_layout(k, layout), as_layout(v, layout)
    mask = (hidden.unsqueeze(1) if mode < 2 else COMPRESSED).npu() if masked else None
    out = CALLS[call](
        as_layout(q, layout).npu(), k.npu(), v.npu(), heads=N, shared=shared, scale=0.3, lengths_q=lengths_q,
        lengths_kv=lengths_kv, table=table, input_layout=layout, sparse_mode=mode, atten_mask=mask, pre_tokens=BEFORE,
        next_tokens=AFTER,
    )  # fmt: skip
    assert_close(out, as_layout(expected, layout), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("layout", ["BSH", "BNSD", "BSND"])
@pytest.mark.parametrize("mode", range(5))
@pytest.mark.parametrize("call", CALLS)
def test_sparse_modes_follow_the_actual_lengths(call, mode, layout):
    for of_q, of_kv in itertools.product(LENGTHS_Q.values(), LENGTHS_KV.values()):
        check_case(call, layout, mode, of_q, of_kv)


@pytest.mark.parametrize("shared", [1, 4])
@pytest.mark.parametrize("mode", range(5))
def test_modes_with_shared_heads_of_keys(mode, shared):
    for call, layout in itertools.product(CALLS, ["BSH", "BNSD", "BSND"]):
        check_case(call, layout, mode, LENGTHS_Q["each"], LENGTHS_KV["each"], shared=shared)


@pytest.mark.parametrize("layout", ["BSH", "BNSD", "BSND"])
@pytest.mark.parametrize("mode", range(5))
@pytest.mark.parametrize("call", ["fused", "fused_v2"])
def test_modes_with_keys_in_pages(call, mode, layout):
    for of_q, of_kv in itertools.product(LENGTHS_Q.values(), ("one", "each", "empty")):
        check_case(call, layout, mode, of_q, LENGTHS_KV[of_kv], pages=False)
        check_case(call, layout, mode, of_q, LENGTHS_KV[of_kv], pages=True)


@pytest.mark.parametrize("call", CALLS)
def test_only_lengths_hide_keys_without_a_mask(call):
    for layout, of_q, of_kv in itertools.product(["BSH", "BNSD", "BSND"], LENGTHS_Q.values(), LENGTHS_KV.values()):
        check_case(call, layout, 0, of_q, of_kv, masked=False)


@pytest.mark.parametrize(
    "shape", [(QUERIES, KEYS), (1, QUERIES, KEYS), (B, QUERIES, KEYS), (B, 1, QUERIES, KEYS), (9, 16)], ids=str
)
@pytest.mark.parametrize("dtype", [torch.bool, torch.int8, torch.uint8], ids=str)
def test_masks_of_every_shape(shape, dtype):
    q, k, v, _ = inputs()
    hidden = torch.rand(shape, generator=torch.Generator().manual_seed(1)) > 0.6
    each = hidden[..., :QUERIES, :KEYS].reshape(-1, QUERIES, KEYS).expand(B, QUERIES, KEYS)
    expected = reference(q, k, v, 0.3, 1, each, [QUERIES] * B, [KEYS] * B)
    tensors = [x.npu() for x in (q, k, v)]
    out = torch_npu.npu_fused_infer_attention_score(
        *tensors, num_heads=N, num_key_value_heads=2, scale=0.3, input_layout="BNSD", atten_mask=hidden.to(dtype).npu()
    )[0]
    assert_close(out, expected, rtol=1e-9, atol=1e-9)


def packed(x, lengths):
    """TND: the valid tokens of all sequences of a BNSD tensor, concatenated."""
    return torch.cat([x[b, :, :n].transpose(0, 1) for b, n in enumerate(lengths)])


@pytest.mark.parametrize("mode", range(5))
@pytest.mark.parametrize("of_kv", ["all", "each", "empty"])
@pytest.mark.parametrize("call", ["fused", "fused_v2", "train", "train_v2", "train_v3"])
def test_modes_of_packed_sequences(call, of_kv, mode):
    q, k, v, hidden = inputs()
    queries, keys = [3, 5, 1], spread(LENGTHS_KV[of_kv], KEYS)
    expected = packed(reference(q, k, v, 0.3, mode, [hidden[0]] * B, queries, keys), queries)
    tensors = [x.npu() for x in (packed(q, queries), packed(k, keys), packed(v, keys))]
    ends_q, ends_kv = list(itertools.accumulate(queries)), list(itertools.accumulate(keys))
    mask = (hidden[0] if mode < 2 else COMPRESSED).npu()
    if call in CALLS:
        out = CALLS[call](
            *tensors, heads=N, shared=2, scale=0.3, lengths_q=ends_q, lengths_kv=ends_kv, table=None, input_layout="TND",
            sparse_mode=mode, atten_mask=mask, pre_tokens=BEFORE, next_tokens=AFTER,
        )  # fmt: skip
    else:
        out = train(call, *tensors, "TND", mode, mask, (ends_q, ends_kv))
    assert_close(out, expected, rtol=1e-9, atol=1e-9)


def train(call, q, k, v, layout, mode, mask, ends=(None, None)):
    tokens = "tokens" if call == "train_v2" else "tockens"
    if call == "train_v3":
        ends = [None if each is None else torch.tensor(each) for each in ends]
    options = {f"pre_{tokens}": BEFORE, f"next_{tokens}": AFTER, "actual_seq_qlen": ends[0], "actual_seq_kvlen": ends[1]}
    name = call.replace("train", "npu_fusion_attention")
    return getattr(torch_npu, name)(q, k, v, N, layout, scale=0.3, sparse_mode=mode, atten_mask=mask, **options)[0]


@pytest.mark.parametrize("mode", range(5))
@pytest.mark.parametrize("call", ["train", "train_v2", "train_v3"])
def test_modes_of_training(call, mode):
    q, k, v, hidden = inputs()
    expected = reference(q, k, v, 0.3, mode, hidden, [QUERIES] * B, [KEYS] * B)
    mask = (hidden.unsqueeze(1) if mode < 2 else COMPRESSED).npu()
    for layout in ("BSH", "BNSD", "BSND"):
        tensors = [as_layout(x, layout).npu() for x in (q, k, v)]
        assert_close(train(call, *tensors, layout, mode, mask), as_layout(expected, layout), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("layout", ["BSH", "BNSD", "BSND"])
@pytest.mark.parametrize("pages", [None, False, True], ids=["whole", "pages", "pages of heads"])
def test_a_single_query_sees_keys_within_length_and_mask(layout, pages):
    """The mask has a row for each sequence; sparse_mode and the window have no effect."""
    q, k, v, hidden = inputs()
    q, hidden, keys = q[:, :, :1], hidden[:, 0], [4, 8, 0]
    expected = as_layout(reference(q, k, v, 0.3, 1, hidden.unsqueeze(1), [1] * B, keys), layout)
    table, whole = None, [as_layout(x, layout) for x in (k, v)]
    if pages is not None:
        (k, table), (v, _) = in_pages(k, layout, pages), in_pages(v, layout, pages)
        table, whole = table.npu(), [k, v]
    tensors = [as_layout(q, layout).npu(), *(x.npu() for x in whole)]
    for shape in ((B, KEYS), (B, 1, KEYS), (B, 1, 1, KEYS)):
        mask = hidden.view(shape).npu()
        out = torch_npu.npu_incre_flash_attention(
            *tensors, num_heads=N, num_key_value_heads=2, scale_value=0.3, input_layout=layout, actual_seq_lengths=keys,
            atten_mask=mask, block_table=table, block_size=BLOCK,
        )  # fmt: skip
        assert_close(out, expected, rtol=1e-9, atol=1e-9)
        for mode in range(5):
            options = {"input_layout": layout, "sparse_mode": mode, "pre_tokens": 1, "next_tokens": 0, "table": table}
            sizes = {"heads": N, "shared": 2, "scale": 0.3, "lengths_q": [1], "lengths_kv": keys}
            assert_close(CALLS["fused"](*tensors, **sizes, **options, atten_mask=mask), expected, rtol=1e-9, atol=1e-9)


def test_the_gradient_of_packed_sequences_without_keys():
    q, k, v = (x.npu().requires_grad_() for x in (rand(5, N, D), rand(3, 2, D, seed=1), rand(3, 2, D, seed=2)))
    out = torch_npu.npu_fusion_attention(q, k, v, N, "TND", scale=0.3, actual_seq_qlen=[2, 5], actual_seq_kvlen=[0, 3])[0]
    out.sum().backward()
    assert not q.grad[:2].any() and q.grad[2:].any() and k.grad.any() and not out[:2].any()
    none = torch_npu.npu_fusion_attention(q, k[:0], v[:0], N, "TND", scale=0.3, actual_seq_qlen=[5], actual_seq_kvlen=[0])
    assert not none[0].any() and not none[2].any()


@pytest.mark.parametrize("layout", ["BSH", "BNSD", "BSND"])
def test_no_keys_at_all_give_zeros(layout):
    q = as_layout(rand(B, N, QUERIES, D), layout).npu()
    k = as_layout(rand(B, 2, 0, D), layout).npu()
    assert not torch_npu.npu_fusion_attention(q, k, k, N, layout)[0].any()
    for call in CALLS.values():
        out = call(q, k, k, heads=N, shared=2, scale=1.0, lengths_q=None, lengths_kv=None, table=None, input_layout=layout)
        assert out.shape == q.shape and not out.any()


Q = rand(B, N, QUERIES, D).float()
REFUSED = {
    "too few lengths": ({"actual_seq_lengths": [1, 2]}, "2 actual lengths of query are given for 3 sequences; give 1 or 3"),
    "a length beyond": ({"actual_seq_lengths_kv": [1, 2, 9]}, "lengths of key are 0 to 5, .*, but 9 is given"),
    "a negative length": ({"actual_seq_lengths_kv": [-1]}, "lengths of key are 0 to 5, .*, but -1 is given"),
    "no mask": ({"sparse_mode": 3}, r"sparse_mode 3 needs an atten_mask that is \[2048, 2048\]"),
    "no whole mask": ({"sparse_mode": 1}, "sparse_mode 1 needs an atten_mask that covers all queries and keys"),
    "a mask that is not compressed": (
        {"sparse_mode": 4, "atten_mask": torch.ones(5, 5).bool()},
        r"sparse_mode 4 needs an atten_mask that is \[2048, 2048\], not \[5, 5\]",
    ),
    "a small mask": (
        {"atten_mask": torch.ones(3, 4).bool()},
        r"must cover 5 queries and 5 keys, but it is \[3, 4\]",
    ),
    "a mode of training": ({"sparse_mode": 5, "atten_mask": COMPRESSED}, "sparse_mode is 0 to 4, not 5"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_arguments_that_do_not_fit_are_refused(case):
    options, words = REFUSED[case]
    for call in (torch_npu.npu_prompt_flash_attention, torch_npu.npu_fused_infer_attention_score):
        with pytest.raises(ValueError, match=f"{call.__name__}: .*{words}"):
            call(Q, Q, Q, num_heads=N, input_layout="BNSD", **options)


def test_pages_without_lengths_and_wrong_ends_are_explained():
    table = torch.zeros(B, 1, dtype=torch.int32)
    with pytest.raises(ValueError, match="block_table needs the actual lengths of the keys"):
        torch_npu.npu_incre_flash_attention(Q[:, :, :1], Q, Q, num_heads=N, input_layout="BNSD", block_table=table)
    x = rand(5, N, D)
    call = torch_npu.npu_fused_infer_attention_score
    packed_options = {"num_heads": N, "input_layout": "TND"}
    with pytest.raises(ValueError, match="the last sequence ends at 9, but key has 5 tokens"):
        call(x, x, x, **packed_options, actual_seq_lengths=[2, 5], actual_seq_lengths_kv=[2, 9])
    with pytest.raises(ValueError, match="2 ends of queries, but 1 ends of keys"):
        call(x, x, x, **packed_options, actual_seq_lengths=[2, 5], actual_seq_lengths_kv=[5])
    with pytest.raises(ValueError, match="pse_shift is not offered for the layout TND"):
        call(x, x, x, **packed_options, actual_seq_lengths=[5], actual_seq_lengths_kv=[5], pse_shift=x)


def test_the_widest_window_of_64_bits_hides_nothing():
    q, k, v, hidden = inputs()
    most = 2**63 - 1
    expected = reference(q, k, v, 0.3, 0, hidden, [QUERIES] * B, [KEYS] * B, before=most, after=most)
    out = torch_npu.npu_prompt_flash_attention(
        q, k, v, num_heads=N, num_key_value_heads=2, scale_value=0.3, input_layout="BNSD", pre_tokens=most, next_tokens=most,
        atten_mask=hidden.unsqueeze(1),
    )  # fmt: skip
    assert_close(out, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("layout", ["BNSD", "TND"])
def test_lengths_are_captured_by_a_graph(layout):
    def tensors(seed):
        q, k, v = rand(B, N, QUERIES, D, seed=seed), rand(B, 2, KEYS, D, seed=seed + 1), rand(B, 2, KEYS, D, seed=seed + 2)
        return [(packed(x, [x.size(2)] * B) if layout == "TND" else x).float().npu() for x in (q, k, v)]

    queries, keys = ([3, 8, 15], [4, 12, 24]) if layout == "TND" else ([3, 5, 0], [4, 8, 2])
    mask = COMPRESSED.npu()

    def attention(q, k, v):
        return torch_npu.npu_fused_infer_attention_score(
            q, k, v, num_heads=N, num_key_value_heads=2, scale=0.3, input_layout=layout, sparse_mode=3, atten_mask=mask,
            actual_seq_lengths=queries, actual_seq_lengths_kv=keys,
        )[0]  # fmt: skip

    given, graph = tensors(0), torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        out = attention(*given)
    for seed in (3, 6):
        fresh = tensors(seed)
        for old, new in zip(given, fresh, strict=True):
            old.copy_(new)
        graph.replay()
        assert_close(out, attention(*fresh).cpu())


@pytest.mark.parametrize("layout", ["BSH", "BNSD", "TND"])
def test_entries_of_a_table_beyond_the_lengths_are_not_read(layout):
    pages = rand(4, BLOCK, 2 * D, seed=1).npu()
    query = rand(2, N, 1, D).npu()
    query = query.squeeze(2) if layout == "TND" else as_layout(query, layout)
    ends = {"actual_seq_lengths": [1, 2]} if layout == "TND" else {}

    def attend(table):
        return torch_npu.npu_fused_infer_attention_score(
            query, pages, pages, num_heads=N, num_key_value_heads=2, input_layout=layout, block_size=BLOCK,
            block_table=torch.tensor(table, dtype=torch.int32).npu(), actual_seq_lengths_kv=[BLOCK, 1], **ends,
        )[0]  # fmt: skip

    expected = attend([[1, 0], [2, 0]])
    for junk in (-1, 12345, -(2**31)):
        assert_close(attend([[1, junk], [2, junk]]), expected.cpu(), rtol=0, atol=0)
