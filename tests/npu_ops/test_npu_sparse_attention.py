"""Sparse attention and the indexer that selects its keys equal loops over queries and keys in plain PyTorch."""

import pytest
import torch
import torch_npu

from tests.compare import assert_close
from tests.support import rand

DEVICES = pytest.mark.parametrize("device", ["cpu", "npu"])
# Lengths of the sequences of queries and of keys.
QUERIES, KEYS = [3, 1, 2], [5, 4, 2]


def sequences(sizes, heads, width, seed=0):
    """A tensor [size, heads, width] per sequence."""
    return [rand(size, heads, width, seed=seed + 10 * i).float() for i, size in enumerate(sizes)]


def lay_out(tensors, layout):
    """(tensor, lengths for actual_seq_lengths, block_table) of sequences in the layout."""
    if layout == "TND":
        ends = torch.tensor([len(each) for each in tensors]).cumsum(0)
        return torch.cat([*tensors, torch.full_like(tensors[0][:1], 7.0)]), ends.int(), None
    lengths = torch.tensor([len(each) for each in tensors], dtype=torch.int32)
    if layout == "BSND":
        padded = torch.full((len(tensors), 6, *tensors[0].shape[1:]), 7.0)
        for row, each in zip(padded, tensors, strict=True):
            row[: len(each)] = each
        return padded, lengths, None
    pages, table, block = torch.full((8, 2, *tensors[0].shape[1:]), 7.0), torch.full((len(tensors), 3), -1), 2
    free = [5, 0, 7, 2, 4, 1, 6, 3]
    for i, each in enumerate(tensors):
        for j in range(0, len(each), block):
            table[i, j // block] = free.pop()
            pages[table[i, j // block], : len(each[j : j + block])] = each[j : j + block]
    return pages, lengths, table.int()


def unpack(result, layout):
    """The parts of a result that belong to the queries of each sequence."""
    if layout == "TND":
        return result[: sum(QUERIES)].split(QUERIES)
    return [row[:size] for row, size in zip(result, QUERIES, strict=True)]


def sees(i, j, queries, keys, causal=True):
    return not causal or j <= i + keys - queries


def expected_indices(q, k, w, count, causal=True):
    out = []
    for i in range(len(q)):
        score = [
            (sum(w[i, n] * torch.relu(q[i, n] @ k[j, 0]) for n in range(q.size(1))), j)
            for j in range(len(k))
            if sees(i, j, len(q), len(k), causal)
        ]
        best = [j for _, j in sorted(score, key=lambda pair: (-pair[0], pair[1]))][:count]
        out.append(best + [-1] * (count - len(best)))
    return out


LAYOUTS = [("BSND", "BSND"), ("TND", "TND"), ("BSND", "PA_BSND"), ("TND", "PA_BSND")]


@DEVICES
@pytest.mark.parametrize("layouts", LAYOUTS)
@pytest.mark.parametrize("causal", [True, False])
def test_the_indexer_finds_the_highest_scores(device, layouts, causal):
    qs, ks, ws = sequences(QUERIES, 4, 8), sequences(KEYS, 1, 8, 3), [w[..., 0] for w in sequences(QUERIES, 4, 1, 6)]
    (q, q_lengths, _), (k, k_lengths, table) = lay_out(qs, layouts[0]), lay_out(ks, layouts[1])
    w = lay_out([each.unsqueeze(-1) for each in ws], layouts[0])[0][..., 0]
    put = lambda x: None if x is None else x.to(device)  # noqa: E731
    options = {
        "actual_seq_lengths_query": put(q_lengths),
        "actual_seq_lengths_key": put(k_lengths),
        "block_table": put(table),
        "layout_query": layouts[0],
        "layout_key": layouts[1],
        "sparse_count": 4,
        "sparse_mode": 3 if causal else 0,
    }
    places, values = torch_npu.npu_lightning_indexer(put(q), put(k), put(w), return_value=True, **options)
    assert places.dtype == torch.int32 and places.shape == values.shape == (*q.shape[:-2], 1, 4) and values.dtype == q.dtype
    for got, own, query, key, weight in zip(unpack(places, layouts[0]), unpack(values, layouts[0]), qs, ks, ws, strict=True):
        expected = expected_indices(query, key, weight, 4, causal)
        assert got[:, 0].tolist() == expected
        for i, row in enumerate(expected):
            known = [j for j in row if j >= 0]
            score = torch.stack([(weight[i].unsqueeze(1) * torch.relu(query[i] @ key[j].t())).sum() for j in known])
            assert_close(own[i, 0, : len(known)], score)
    # int8 queries and keys with scales select the same keys as their dequantised values.
    int8, scale = torch_npu.npu_dynamic_quant(q.flatten(0, -2)), torch_npu.npu_dynamic_quant(k.flatten(0, -2))
    (q8, qs8), (k8, ks8) = ([part.reshape(*of.shape[:-1], *part.shape[1:]) for part in x] for x, of in ((int8, q), (scale, k)))
    exact = torch_npu.npu_lightning_indexer(
        put(q8.float() * qs8.unsqueeze(-1)), put(k8.float() * ks8.unsqueeze(-1)), put(w), **options
    )[0]
    assert torch.equal(
        torch_npu.npu_quant_lightning_indexer(put(q8), put(k8), put(w), put(qs8), put(ks8), 0, 0, **options), exact
    )


def expected_attention(q, k, v, indices, scale, block, sinks=None, causal=True):
    """[S, N, D] of q [S, N, D], k [S2, N2, D]."""
    out = torch.zeros(*q.shape[:2], v.size(-1))
    for i in range(len(q)):
        for n in range(q.size(1)):
            of = n // (q.size(1) // k.size(1))
            named = {j for b in indices[i, of].tolist() if b >= 0 for j in range(b * block, (b + 1) * block)}
            seen = sorted(j for j in named if j < len(k) and sees(i, j, len(q), len(k), causal))
            if not seen:
                continue
            weights = torch.stack([scale * (q[i, n] @ k[j, of]) for j in seen]).exp()
            total = weights.sum() + (0 if sinks is None else sinks[n].exp())
            out[i, n] = (weights / total) @ v[seen, of]
    return out


@DEVICES
@pytest.mark.parametrize("layouts", LAYOUTS)
@pytest.mark.parametrize("block", [1, 2])
def test_attention_to_the_keys_that_indices_name(device, layouts, block):
    put = lambda x: None if x is None else x.to(device)  # noqa: E731
    qs, ks, vs = sequences(QUERIES, 4, 6), sequences(KEYS, 2, 6, 3), sequences(KEYS, 2, 5, 6)
    generator = torch.Generator().manual_seed(0)
    named = []
    for size, keys in zip(QUERIES, KEYS, strict=True):
        blocks = (keys + block - 1) // block
        rows = [torch.randperm(blocks, generator=generator)[:2] for _ in range(size * 2)]
        named.append(torch.stack([torch.nn.functional.pad(row, (0, 3 - len(row)), value=-1) for row in rows]).view(size, 2, 3))
    (q, q_lengths, _), (k, k_lengths, table) = lay_out(qs, layouts[0]), lay_out(ks, layouts[1])
    v = lay_out(vs, layouts[1])[0]
    indices = lay_out([each.float() for each in named], layouts[0])[0].int()
    sinks = rand(4).float()
    results = torch_npu.npu_sparse_flash_attention(
        put(q[..., :4]), put(k[..., :4]), put(v), put(indices), 0.5, block_table=put(table),
        actual_seq_lengths_query=put(q_lengths), actual_seq_lengths_kv=put(k_lengths), query_rope=put(q[..., 4:]),
        key_rope=put(k[..., 4:]), sparse_block_size=block, layout_query=layouts[0], layout_kv=layouts[1], attention_mode=2,
        return_softmax_lse=True, sinks=put(sinks),
    )  # fmt: skip
    out, most, total = results
    for got, *own in zip(unpack(out, layouts[0]), qs, ks, vs, named, strict=True):
        assert_close(got.cpu(), expected_attention(*own, 0.5, block, sinks))
    shape = (2, q.size(0), 2) if layouts[0] == "TND" else (q.size(0), 2, q.size(1), 2)
    assert most.shape == total.shape == shape and most.dtype == total.dtype == torch.float32
    plain, empty, _ = torch_npu.npu_sparse_flash_attention(
        put(q), put(k), put(v), put(indices), 0.5, block_table=put(table), actual_seq_lengths_query=put(q_lengths),
        actual_seq_lengths_kv=put(k_lengths), sparse_block_size=block, layout_query=layouts[0], layout_kv=layouts[1],
        sparse_mode=0,
    )  # fmt: skip
    assert empty.numel() == 0
    for got, *own in zip(unpack(plain, layouts[0]), qs, ks, vs, named, strict=True):
        assert_close(got.cpu(), expected_attention(*own, 0.5, block, None, causal=False))


@DEVICES
def test_keys_may_be_quantised_in_tiles(device):
    q = rand(1, 2, 4, 12).half()
    values = torch.randint(-100, 100, (1, 5, 1, 8), generator=torch.Generator().manual_seed(0), dtype=torch.int8)
    rope, scales = rand(1, 5, 1, 4).half(), rand(1, 5, 1, 2).abs().float() / 100
    key = torch.cat((values, rope.view(torch.int8), scales.view(torch.int8)), -1)
    dequantised = values.float() * scales.repeat_interleave(4, -1)
    indices = torch.tensor([[0, 2, -1], [4, 1, 0]], dtype=torch.int32).view(1, 2, 1, 3)
    out = torch_npu.npu_kv_quant_sparse_flash_attention(
        q.to(device),
        key.to(device),
        key.to(device),
        indices.to(device),
        0.25,
        2,
        2,
        attention_mode=2,
        tile_size=4,
        rope_head_dim=4,
    )
    whole = torch.cat((dequantised, rope.float()), -1)
    expected = expected_attention(q[0].float(), whole[0], dequantised[0], indices[0], 0.25, 1)
    assert out.dtype == torch.float16
    assert_close(out[0].cpu().float(), expected, rtol=1e-2, atol=1e-2)


@DEVICES
@pytest.mark.parametrize("layout", ["BNSD", "TND"])
def test_attention_within_blocks(device, layout):
    sizes_q, sizes_k = [5, 3], [4, 6]
    qs, ks, vs = sequences(sizes_q, 4, 6), sequences(sizes_k, 2, 6, 3), sequences(sizes_k, 2, 6, 6)
    mask = torch.randint(0, 2, (2, 4, 3, 2), generator=torch.Generator().manual_seed(1), dtype=torch.int8)
    if layout == "TND":
        q, k, v = (torch.cat(x) for x in (qs, ks, vs))
    else:
        pad = lambda x, size: torch.nn.functional.pad(x.transpose(0, 1), (0, 0, 0, size - len(x)), value=5.0)  # noqa: E731
        q, k, v = (torch.stack([pad(each, size) for each in x]) for x, size in ((qs, 5), (ks, 6), (vs, 6)))
    out, lse = torch_npu.npu_block_sparse_attention(
        *(x.to(device) for x in (q, k, v, mask)), [2, 3], q_input_layout=layout, kv_input_layout=layout, num_key_value_heads=2,
        scale_value=0.5, actual_seq_lengths=sizes_q, actual_seq_lengths_kv=sizes_k, softmax_lse_flag=1,
    )  # fmt: skip
    assert lse.shape == (*q.shape[:-1], 1) and out.shape == q.shape
    first = 0
    for b, (size, keys) in enumerate(zip(sizes_q, sizes_k, strict=True)):
        got, own = (out[first : first + size], lse[first : first + size]) if layout == "TND" else (
            out[b].transpose(0, 1)[:size], lse[b].transpose(0, 1)[:size])  # fmt: skip
        first += size
        for i in range(size):
            for n in range(4):
                seen = [j for j in range(keys) if mask[b, n, i // 2, j // 3]]
                scores = torch.stack([0.5 * (qs[b][i, n] @ ks[b][j, n // 2]) for j in seen]) if seen else torch.empty(0)
                expected = scores.softmax(0) @ vs[b][seen, n // 2] if seen else torch.zeros(6)
                assert_close(got[i, n].cpu(), expected)
                if seen:
                    assert_close(own[i, n, 0].cpu(), scores.logsumexp(0))


def indexer_loss(q, k, w, target, seen):
    """KL divergence of the indexer's softmax from the target, over the visible keys."""
    scores = (torch.relu(torch.einsum("snd,td->snt", q, k[:, 0])) * w.unsqueeze(-1)).sum(1)
    predicted = scores.masked_fill(~seen, float("-inf")).log_softmax(-1)
    return (target * (target.clamp(min=1e-30).log() - predicted)).masked_fill(~seen, 0).sum()


@DEVICES
@pytest.mark.parametrize("layout", ["BSND", "TND"])
@pytest.mark.parametrize("sparse", [False, True])
def test_the_indexer_learns_what_attention_looks_at(device, layout, sparse):
    sizes, keys = ([2, 2], [4, 4]) if layout == "BSND" else ([3, 2], [4, 5])
    heads = 1 if sparse else 2
    qs, ks = sequences(sizes, 4, 6), sequences(keys, heads, 6, 3)
    qi, ki = sequences(sizes, 3, 5, 6), sequences(keys, 1, 5, 9)
    ws = [w[..., 0].abs() + 0.1 for w in sequences(sizes, 3, 1, 12)]
    named = [torch.tensor([0, 2, 3]).expand(size, 1, 3) for size in sizes]
    statistics, expected, loss = [], [], 0
    for q, k, a, b, w in zip(qs, ks, qi, ki, ws, strict=True):
        seen = torch.tensor([[sees(i, j, len(q), len(k)) for j in range(len(k))] for i in range(len(q))])
        if sparse:
            seen &= torch.tensor([j in (0, 2, 3) for j in range(len(k))])
        scores = torch.einsum("snd,tnd->nst", q, k.repeat_interleave(4 // heads, 1)) * 0.5
        scores = scores.masked_fill(~seen, float("-inf"))
        most = scores.amax(-1)
        total = (scores - most.unsqueeze(-1)).exp().sum(-1)
        target = scores.softmax(-1).mean(0)
        leaves = [x.clone().requires_grad_() for x in (a, b, w)]
        own = indexer_loss(*leaves, target, seen)
        own.backward()
        loss = loss + own.detach()
        expected.append([leaf.grad for leaf in leaves])
        statistics.append([x.view(heads, -1, len(q)).transpose(1, 2) for x in (most, total)])
    join = torch.cat if layout == "TND" else torch.stack
    q, k, a, b, w = (join(x).to(device) for x in (qs, ks, qi, ki, ws))
    most, total = (torch.cat(x, 1) if layout == "TND" else torch.stack(x) for x in zip(*statistics, strict=True))
    ends = {} if layout == "BSND" else {"actual_seq_qlen": [3, 5], "actual_seq_klen": [4, 9]}
    if sparse:
        results = torch_npu.npu_sparse_lightning_indexer_grad_kl_loss(
            q, k, a, b, w, join(named).int().to(device), most.to(device), total.to(device), 0.5, layout=layout, **ends
        )
    else:
        index = torch_npu.npu_dense_lightning_indexer_softmax_lse(a, b, w, layout=layout, **ends)
        assert all(x.shape == ((1, 5) if layout == "TND" else (2, 1, 2)) for x in index)
        results = torch_npu.npu_dense_lightning_indexer_grad_kl_loss(
            q[..., :4], k[..., :4], a, b, w, most.to(device), total.to(device), *index, 0.5, query_rope=q[..., 4:],
            key_rope=k[..., 4:], layout=layout, **ends
        )  # fmt: skip
    for got, parts in zip(results, zip(*expected, strict=True), strict=False):
        assert_close(got.cpu(), join(parts), rtol=1e-3, atol=1e-5)
    assert_close(results[3].cpu(), loss.reshape(1), rtol=1e-3, atol=1e-5)


def test_arguments_that_do_not_fit_are_refused():
    q, k, w, indices = rand(1, 2, 4, 8), rand(1, 3, 1, 8), rand(1, 2, 4), torch.zeros(1, 2, 1, 2, dtype=torch.int32)
    with pytest.raises(ValueError, match=r"npu_lightning_indexer: the layout is BSND, TND or .* not BNSD"):
        torch_npu.npu_lightning_indexer(q, k, w, layout_query="BNSD")
    with pytest.raises(ValueError, match="the layout TND needs the lengths of the sequences"):
        torch_npu.npu_lightning_indexer(q[0], k[0], w[0], layout_query="TND", layout_key="TND")
    with pytest.raises(ValueError, match="needs block_table"):
        torch_npu.npu_lightning_indexer(q, k, w, layout_key="PA_BSND", actual_seq_lengths_key=torch.tensor([3]))
    with pytest.raises(ValueError, match=r"sparse_mode is 0 .* or 3"):
        torch_npu.npu_lightning_indexer(q, k, w, sparse_mode=1)
    with pytest.raises(ValueError, match="pre_tokens and next_tokens are"):
        torch_npu.npu_sparse_flash_attention(q, k, k, indices, 1.0, pre_tokens=3)
    with pytest.raises(ValueError, match="keys have one head, not 2"):
        torch_npu.npu_lightning_indexer(q, k.expand(1, 3, 2, 8), w)
    with pytest.raises(ValueError, match="1 sequences, but 2 lengths"):
        torch_npu.npu_lightning_indexer(q, k, w, actual_seq_lengths_key=torch.tensor([3, 3]))
    with pytest.raises(ValueError, match="key has 1 heads, but sparse_indices have 2"):
        torch_npu.npu_sparse_flash_attention(q, k, k, indices.expand(1, 2, 2, 2), 1.0)
    with pytest.raises(ValueError, match="both layouts are TND, or both are BNSD"):
        torch_npu.npu_block_sparse_attention(q, q, q, torch.ones(1, 2, 1, 1), [4, 4], q_input_layout="BNSD")
    with pytest.raises(ValueError, match="bytes per token and head, not 8"):
        torch_npu.npu_kv_quant_sparse_flash_attention(
            q.half(), k.char(), k.char(), indices, 1.0, 2, 2, tile_size=4, rope_head_dim=4
        )
    with pytest.raises(NotImplementedError, match="does not offer the argument sinks"):
        torch_npu.npu_sparse_lightning_indexer_grad_kl_loss(q, k, q, k, w, indices, w, w, 1.0, sinks=rand(4))


def places_of(sizes):
    """(sequence, place) of each token."""
    return [(i, j) for i, size in enumerate(sizes) for j in range(size)]


@DEVICES
def test_compressed_keys_are_weighted_sums_of_blocks(device):
    x, weight, ends = rand(13, 2, 4).half(), rand(4, 2).half(), [6, 8, 13]
    wide = x.float()
    blocks = [range(start, start + 4) for start in (0, 2, 8)]
    expected = torch.stack([sum(weight[i].float().unsqueeze(1) * wide[t] for i, t in enumerate(block)) for block in blocks])
    out = torch_npu.npu_nsa_compress(x.to(device), weight.to(device), 4, 2, actual_seq_len=ends)
    assert_close(out.cpu(), expected.half(), rtol=2e-3, atol=2e-3)
    assert torch_npu.npu_nsa_compress(x[:3].to(device), weight.to(device), 4, 2).shape == (0, 2, 4)
    pages, table, lengths = rand(5, 3, 2, 4).half(), torch.tensor([[4, 1, 0], [2, 3, -1]], dtype=torch.int32), [8, 5]
    cache = torch.ones(3, 2, 4).half()
    got = torch_npu.npu_nsa_compress_infer(
        pages.to(device), weight.to(device), torch.tensor([2, 0]).to(device), 4, 2, 3, block_table=table.to(device),
        actual_seq_len=lengths, cache=cache.clone().to(device),
    )  # fmt: skip
    tokens = pages[table[0].long()].flatten(0, 1)[4:8].float()
    cache[2] = (tokens * weight.float().unsqueeze(-1)).sum(0).half()
    assert_close(got.cpu(), cache, rtol=2e-3, atol=2e-3)


@DEVICES
def test_attention_to_chosen_blocks(device):
    q, k, v = rand(5, 4, 6).float(), rand(10, 2, 6).float(), rand(10, 2, 3).float()
    ends_q, ends_k = [2, 5], [4, 10]
    indices = torch.tensor([[0, 1], [1, 0], [0, 2], [2, 1], [1, 0]], dtype=torch.int32).unsqueeze(1).repeat(1, 2, 1)
    out, most, total = torch_npu.npu_nsa_select_attention(
        q.to(device),
        k.to(device),
        v.to(device),
        indices.to(device),
        0.5,
        4,
        2,
        2,
        actual_seq_qlen=ends_q,
        actual_seq_kvlen=ends_k,
    )
    assert most.shape == total.shape == (5, 4, 8)
    for t, (sequence, _) in enumerate(places_of([2, 3])):
        first = [0, 4][sequence]
        for n in range(4):
            seen = [first + 2 * b + j for b in indices[t, n // 2].tolist() for j in range(2)]
            scores = 0.5 * k[seen, n // 2] @ q[t, n]
            assert_close(out[t, n].cpu(), scores.softmax(0) @ v[seen, n // 2])
            assert_close((most + total.log())[t, n, 0].cpu(), scores.logsumexp(0))


@DEVICES
def test_attention_to_compressed_keys_scores_blocks(device):
    q, k, v = rand(5, 4, 6).float(), rand(15, 2, 6).float(), rand(15, 2, 3).float()
    ends_q, ends_k, ends_b = [2, 5], [7, 15], [3, 7]
    hidden = torch.zeros(3, 8, dtype=torch.bool)
    hidden[:, 5] = True
    always = torch.zeros(3, 4, dtype=torch.bool)
    always[1, 2] = True
    out, best, most, _ = torch_npu.npu_nsa_compress_attention(
        q.to(device), k.to(device), v.to(device), 0.5, 4, 4, 2, 4, 2, topk_mask=always.to(device), atten_mask=hidden.to(device),
        actual_seq_qlen=ends_q, actual_cmp_seq_kvlen=ends_k, actual_sel_seq_kvlen=ends_b,
    )  # fmt: skip
    assert best.shape == (5, 2, 2) and best.dtype == torch.int32 and most.shape == (5, 4, 8)
    # Blocks of 4 tokens, compressed keys of 4 tokens at stride 2: block b overlaps keys 2b + 2, 2b + 1 (twice) and 2b.
    for t, (sequence, place) in enumerate(places_of([2, 3])):
        first, keys, blocks = [(0, 7, 3), (7, 8, 4)][sequence]
        for group in range(2):
            score = torch.zeros(blocks)
            for n in (2 * group, 2 * group + 1):
                scores = (0.5 * k[first : first + keys, group] @ q[t, n]).masked_fill(hidden[place, :keys], float("-inf"))
                weights = scores.softmax(0)
                assert_close(out[t, n].cpu(), weights @ v[first : first + keys, group])
                for b in range(blocks):
                    for key, times in ((2 * b + 2, 1), (2 * b + 1, 2), (2 * b, 1)):
                        score[b] += times * weights[key] if key < keys else 0
            order = sorted(range(blocks), key=lambda b: (not always[place, b], -score[b].item()))
            assert best[t, group].tolist() == order[:2]


@DEVICES
@pytest.mark.parametrize("layout", ["BSND", "TND"])
def test_the_backward_operator_of_the_indexer(device, layout):
    q, k, w = rand(2, 3, 4, 5), rand(2, 6, 1, 5), rand(2, 3, 4)
    ends = {}
    if layout == "TND":
        q, k, w = q.flatten(0, 1), k.flatten(0, 1), w.flatten(0, 1)
        ends = {"actual_seq_lengths_query": torch.tensor([3, 6]), "actual_seq_lengths_key": torch.tensor([6, 12])}
    leaves = [x.float().requires_grad_() for x in (q, k, w)]
    indices, values = torch_npu.npu_lightning_indexer(
        *leaves, layout_query=layout, layout_key=layout, sparse_count=4, return_value=True, **ends
    )
    dy = rand(*values.shape).float()
    values.backward(dy)
    ends = {name: t.to(device) for name, t in ends.items()}
    grads = torch_npu.npu_lightning_indexer_grad(
        *(x.detach().to(device) for x in leaves[:2]), dy.to(device), indices.to(device), leaves[2].detach().to(device),
        layout=layout, **ends,
    )  # fmt: skip
    assert_close(tuple(grads), tuple(leaf.grad for leaf in leaves))
