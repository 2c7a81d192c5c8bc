"""Attention operators of the namespace npu equal scaled_dot_product_attention."""

import itertools

import pytest
import torch
import torch.nn.functional as F
import torch_npu
from torch.autograd import gradcheck

from tests.compare import assert_close
from tests.support import rand

QKV = [rand(2, 4, 6, 8), rand(2, 2, 6, 8, seed=1), rand(2, 2, 6, 8, seed=2)]  # BNSD, with two query heads per head of key


def by_layout(tensors, layout):
    change = {
        "BNSD": lambda x: x,
        "BSND": lambda x: x.transpose(1, 2),
        "BSH": lambda x: x.transpose(1, 2).flatten(2),
        "SBH": lambda x: x.permute(2, 0, 1, 3).flatten(2),
    }[layout]
    return [change(x).contiguous() for x in tensors]


def plain_attention(q, k, v, **options):
    return F.scaled_dot_product_attention(q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1), **options)


@pytest.mark.parametrize("layout", ["BNSD", "BSND", "BSH", "SBH"])
def test_fusion_attention_in_every_layout(layout):
    expected = by_layout([plain_attention(*QKV, scale=0.3)], layout)[0]
    for device in ("cpu", "npu"):
        tensors = [x.to(device) for x in by_layout(QKV, layout)]
        out, most, total, empty, *numbers = torch_npu.npu_fusion_attention(*tensors, 4, layout, scale=0.3)
        assert_close(out, expected, rtol=1e-9, atol=1e-9)
        scores = 0.3 * QKV[0] @ QKV[1].repeat_interleave(2, 1).transpose(-1, -2)
        lse = (most + total.log())[..., 0].cpu().double()
        assert_close(lse, scores.logsumexp(-1))
        assert most.shape == total.shape == (2, 4, 6, 8) and empty.numel() == 0 and numbers == [0, 0, 0]


def visible(mode, queries, keys, before=None, after=None):
    """The mask of visible keys, from the definition of the mode."""
    shift = keys - queries if mode in (3, 4) else 0
    rows = []
    for i in range(queries):
        low, high = {2: (0, i), 3: (0, i + shift), 4: (i + shift - (before or 0), i + shift + (after or 0))}[mode]
        rows.append([low <= j <= high for j in range(keys)])
    return torch.tensor(rows)


@pytest.mark.parametrize("mode", [2, 3, 4])
def test_the_sparse_modes_of_fusion_attention(mode):
    q, (k, v) = QKV[0][:, :, :4], QKV[1:]
    compressed = torch.ones(2048, 2048, dtype=torch.bool).triu(1)
    seen = visible(mode, 4, 6, 2, 1)
    expected = plain_attention(q, k, v, attn_mask=seen)
    for device in ("cpu", "npu"):
        out = torch_npu.npu_fusion_attention(
            q.to(device), k.to(device), v.to(device), 4, "BNSD", atten_mask=compressed.to(device), scale=8**-0.5,
            sparse_mode=mode, pre_tockens=2, next_tockens=1,
        )[0]  # fmt: skip
        assert_close(out, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("mode", [0, 1])
def test_a_mask_hides_where_it_is_true(mode):
    hidden = torch.rand(2, 1, 6, 6, generator=torch.Generator().manual_seed(0)) > 0.5
    hidden[0, 0, 2] = True
    out = torch_npu.npu_fusion_attention(*QKV, 4, "BNSD", atten_mask=hidden, scale=8**-0.5, sparse_mode=mode)[0]
    expected = plain_attention(*QKV, attn_mask=~hidden).nan_to_num(0)
    assert_close(out, expected, rtol=1e-9, atol=1e-9)
    assert (out[0, :, 2] == 0).all()


def test_fusion_attention_of_packed_sequences():
    lengths = [2, 0, 3, 1]
    ends = list(itertools.accumulate(lengths))
    q, k, v = rand(7, 4, 8), rand(6, 2, 8), rand(6, 2, 8, seed=1)
    mask = torch.ones(2048, 2048, dtype=torch.bool).triu(1)
    for device in ("cpu", "npu"):
        out, most, _, *_ = torch_npu.npu_fusion_attention(
            q.to(device), k.to(device), v.to(device), 4, "TND", atten_mask=mask.to(device), scale=8**-0.5, sparse_mode=3,
            actual_seq_qlen=ends, actual_seq_kvlen=ends,
        )  # fmt: skip
        expected = torch.zeros(7, 4, 8, dtype=torch.float64)
        for start, end in zip([0, *ends], ends, strict=False):
            own = [x[start:end].transpose(0, 1).unsqueeze(0) for x in (q, k, v)]
            if end > start:
                expected[start:end] = plain_attention(*own, is_causal=True)[0].transpose(0, 1)
        assert_close(out, expected, rtol=1e-9, atol=1e-9)
        assert most.shape == (7, 4, 8)


def test_attention_with_pse_sinks_and_rope():
    pse, sink = rand(1, 4, 6, 6), rand(4)
    q, k, v = QKV
    k, v = k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)
    scores = (q @ k.transpose(-1, -2) + pse) * 0.5
    out = torch_npu.npu_fusion_attention(*QKV, 4, "BNSD", pse=pse, scale=0.5, sink=sink)[0]
    with_sink = torch.cat((scores, sink.view(1, 4, 1, 1).expand(2, 4, 6, 1)), -1).softmax(-1)[..., :6]
    assert_close(out, with_sink @ v, rtol=1e-6, atol=1e-6)
    rope_q, rope_k = rand(2, 4, 6, 2), rand(2, 2, 6, 2)
    out = torch_npu.npu_fusion_attention_v2(*QKV, 4, "BNSD", pse=pse, pse_type=0, scale=0.5, query_rope=rope_q, key_rope=rope_k)[
        0
    ]
    scores = (q @ k.transpose(-1, -2) + rope_q @ rope_k.repeat_interleave(2, 1).transpose(-1, -2)) * 0.5 + pse
    assert_close(out, scores.softmax(-1) @ v, rtol=1e-9, atol=1e-9)


def test_the_gradient_of_fusion_attention():
    mask = torch.ones(6, 6, dtype=torch.bool).triu(1)
    inputs = [x[:1, :, :, :3].clone().requires_grad_() for x in QKV]
    call = lambda q, k, v, s: torch_npu.npu_fusion_attention(q, k, v, 4, "BNSD", atten_mask=mask, sparse_mode=3, sink=s)[0]  # noqa: E731
    assert gradcheck(call, (*inputs, rand(4).requires_grad_()), fast_mode=True)


def test_dropout_of_fusion_attention_is_repeated_by_its_seed_and_keeps_the_mean():
    q, k, v = (torch.ones(1, 1, 64, 16, device="npu") for _ in range(3))
    call = lambda seed: torch_npu.npu_fusion_attention(q, k, v, 1, "BNSD", keep_prob=0.5, seed=seed)  # noqa: E731
    first, again, other = call(7), call(7), call(8)
    assert torch.equal(first[0], again[0]) and not torch.equal(first[0], other[0])
    assert first[0].mean().item() == pytest.approx(1, abs=0.1)
    assert first[4:] == (7, 0, 64 * 64)


def test_attention_for_inference():
    q, k, v = QKV
    lengths = [3, 6]
    beyond = torch.arange(6) >= torch.tensor(lengths).view(2, 1, 1, 1)
    expected = plain_attention(q, k, v, attn_mask=~beyond, scale=0.3)
    for device in ("cpu", "npu"):
        tensors = [x.to(device) for x in by_layout(QKV, "BSH")]
        out = torch_npu.npu_prompt_flash_attention(
            *tensors, num_heads=4, num_key_value_heads=2, scale_value=0.3, input_layout="BSH", actual_seq_lengths_kv=lengths
        )
        assert_close(out.cpu(), by_layout([expected], "BSH")[0], rtol=1e-9, atol=1e-9)
        new = tensors[0][:, :1]
        one = torch_npu.npu_incre_flash_attention(
            new, *tensors[1:], num_heads=4, num_key_value_heads=2, scale_value=0.3, actual_seq_lengths=lengths
        )
        assert_close(one.cpu(), by_layout([expected], "BSH")[0][:, :1], rtol=1e-9, atol=1e-9)
        whole, lse = torch_npu.npu_fused_infer_attention_score(
            *tensors, num_heads=4, num_key_value_heads=2, scale=0.3, actual_seq_lengths_kv=lengths, softmax_lse_flag=True
        )
        assert_close(whole.cpu(), out.cpu(), rtol=1e-9, atol=1e-9)
        assert lse.shape == (2, 4, 6, 1)


def test_attention_of_pages_is_that_of_the_sequences():
    q, k, v = (x.npu() for x in by_layout(QKV, "BSH"))
    table = torch.tensor([[4, 0], [1, 3]], dtype=torch.int32, device="npu")
    pages = []
    for x in (k, v):
        paged = torch.zeros(5, 3, x.size(2), dtype=x.dtype, device="npu")
        for batch in range(2):
            for block in range(2):
                paged[table[batch, block].item()] = x[batch, block * 3 : block * 3 + 3]
        pages.append(paged)
    options = {"num_heads": 4, "num_key_value_heads": 2, "scale_value": 0.3, "actual_seq_lengths": [6]}
    expected = torch_npu.npu_incre_flash_attention(q[:, :1], k, v, **options)
    out = torch_npu.npu_incre_flash_attention(q[:, :1], *pages, block_table=table, block_size=3, **options)
    assert torch.equal(out, expected)


def test_partial_attention_results_are_merged():
    q, k, v = QKV
    k, v = k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)
    lse, out = [], []
    for part in (slice(0, 2), slice(2, 6)):
        scores = q @ k[:, :, part].transpose(-1, -2)
        lse.append(scores.logsumexp(-1).flatten().float())
        out.append((scores.softmax(-1) @ v[:, :, part]).flatten(0, 2).float())
    whole, _ = torch_npu.npu_attention_update(lse, out, 0)
    assert_close(whole, plain_attention(*QKV, scale=1.0).flatten(0, 2).float())


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_multi_head_attention(device):
    batch, length, heads, width = 2, 3, 4, 2
    size = heads * width
    layer = torch.nn.MultiheadAttention(size, heads, batch_first=True)
    torch.nn.init.uniform_(layer.in_proj_bias)
    x, mask = rand(batch, length, size).float(), rand(batch * heads, length, length).float()
    expected = layer(x, x, x, attn_mask=mask, need_weights=False)[0].flatten(0, 1)
    w, b = layer.in_proj_weight.chunk(3), layer.in_proj_bias.chunk(3)
    flat = x.flatten(0, 1)
    tensors = [flat] * 3 + [*w, mask.view(batch, heads, length, length), layer.out_proj.weight, *b, layer.out_proj.bias]
    out = torch_npu.npu_multi_head_attention(*(t.to(device) for t in tensors), None, heads, width, length, length, 0.0, True)
    assert_close(out[0], expected)


def test_attention_over_chunks_of_keys_equals_attention_over_all_keys():
    q, k, v = (x.npu() for x in by_layout(QKV, "SBH"))
    dy = rand(*q.shape, seed=3).npu()
    twins = [x.clone().requires_grad_() for x in (q, k, v)]
    whole = torch_npu.npu_fusion_attention(*twins, 4, "SBH", scale=0.3)
    whole[0].backward(dy)
    parts = [torch_npu.npu_fusion_attention(q, k[part], v[part], 4, "SBH", scale=0.3) for part in (slice(0, 2), slice(2, 6))]
    out, most, total = torch_npu.npu_ring_attention_update(*parts[0][:3], *parts[1][:3])
    assert_close(out, whole[0].detach().cpu())
    grads = [
        torch_npu.npu_fusion_attention_grad(
            q, k[part], v[part], dy, 4, "SBH", softmax_max=most, softmax_sum=total, attention_in=out, scale_value=0.3
        )
        for part in (slice(0, 2), slice(2, 6))
    ]
    assert_close(grads[0][0] + grads[1][0], twins[0].grad.cpu())
    for i in (1, 2):
        assert_close(torch.cat((grads[0][i], grads[1][i])), twins[i].grad.cpu())


def test_parts_of_packed_sequences_are_put_together():
    ends = {"actual_seq_qlen": [1, 4], "actual_seq_kvlen": [1, 4]}
    parts = [torch_npu.npu_fusion_attention(*[rand(4, 2, 8, seed=i)] * 3, 2, "TND", **ends) for i in (0, 1)]
    out, most, total = torch_npu.npu_ring_attention_update(*parts[0][:3], *parts[1][:3], input_layout="TND")
    lse = [(part[1] + part[2].log())[..., :1] for part in parts]
    share = torch.softmax(torch.stack(lse).double(), 0)
    assert_close(out, parts[0][0] * share[0] + parts[1][0] * share[1])
    assert_close((most + total.log())[..., :1], torch.logaddexp(*lse))


def test_autocast_does_not_change_operators_inside_attention():
    half = [x.bfloat16().npu() for x in QKV]
    expected = torch_npu.npu_fusion_attention(*half, 4, "BNSD", scale=0.3)[0]
    with torch.autocast("npu", dtype=torch.bfloat16):
        assert torch.equal(torch_npu.npu_fusion_attention(*half, 4, "BNSD", scale=0.3)[0], expected)


@pytest.mark.parametrize("device", ["cpu", "npu"])
@pytest.mark.parametrize("layout", ["BSH", "BSND", "BNSD", "BNSD_BSND", "BSH_NBSD", "BSND_NBSD", "BNSD_NBSD"])
def test_inference_takes_and_gives_layouts_and_more_dimensions(device, layout):
    q, k, v = QKV
    sink = rand(4, seed=3)
    scores = torch.cat((0.3 * q @ k.repeat_interleave(2, 1).mT, sink.view(1, 4, 1, 1).expand(2, 4, 6, 1)), -1)
    expected = scores.softmax(-1)[..., :-1] @ v.repeat_interleave(2, 1)
    given, _, wanted = layout.partition("_")
    expected = expected.transpose(0, 1) if wanted == "NBSD" else by_layout([expected], wanted or given)[0]
    parts = by_layout([q[..., :5], k[..., :5], v, q[..., 5:], k[..., 5:]], given)
    parts = [x.to(device) for x in parts]
    out, lse = torch_npu.npu_fused_infer_attention_score_v2(
        *parts[:3], query_rope=parts[3], key_rope=parts[4], learnable_sink=sink.to(device), num_query_heads=4,
        num_key_value_heads=2, softmax_scale=0.3, input_layout=layout, return_softmax_lse=True,
    )  # fmt: skip
    assert_close(out, expected, rtol=1e-9, atol=1e-9)
    assert_close(lse.double(), scores.logsumexp(-1, keepdim=True))
    filled = torch.empty_like(out), torch.empty_like(lse)
    results = torch.ops.npu.npu_fused_infer_attention_score_v2.out(
        *parts[:3], query_rope=parts[3], key_rope=parts[4], learnable_sink=sink.to(device), num_query_heads=4,
        num_key_value_heads=2, softmax_scale=0.3, input_layout=layout, return_softmax_lse=True, attention_out=filled[0],
        softmax_lse=filled[1],
    )  # fmt: skip
    assert results[0] is filled[0] and torch.equal(filled[0], out) and torch.equal(filled[1], lse)
    plain = {"num_query_heads": 4, "num_key_value_heads": 2, "softmax_scale": 0.3, "input_layout": layout}
    small = torch.ones(1, device=device)
    torch.ops.npu.npu_fused_infer_attention_score_v2.out(*parts[:3], **plain, attention_out=filled[0], softmax_lse=small)
    own, empty = torch_npu.npu_fused_infer_attention_score_v2(*parts[:3], **plain)
    assert torch.equal(filled[0], own) and empty.numel() == 0 and small.tolist() == [1]


@pytest.mark.parametrize("device", ["cpu", "npu"])
@pytest.mark.parametrize("heads_first", [False, True])
def test_inference_of_packed_queries_reads_pages(device, heads_first):
    lengths_q, lengths_kv, table = [3, 1], [6, 3], torch.tensor([[4, 0, 2], [3, 1, -1]], dtype=torch.int32)
    q, pages_k, pages_v = rand(4, 4, 8), rand(5, 2, 2, 8), rand(5, 2, 2, 8, seed=1)  # [page, place, head, dimension]
    causal, expected = torch.ones(2048, 2048, dtype=torch.bool).triu(1), []
    for b, (size, keys) in enumerate(zip(lengths_q, lengths_kv, strict=True)):
        own = q[:size] if b == 0 else q[3:]
        k, v = (pages[table[b, : (keys + 1) // 2].long()].flatten(0, 1)[:keys] for pages in (pages_k, pages_v))
        k, v = (x.repeat_interleave(2, 1).transpose(0, 1) for x in (k, v))
        seen = visible(3, size, keys)
        expected.append(F.scaled_dot_product_attention(own.transpose(0, 1), k, v, attn_mask=seen).transpose(0, 1))
    pages = [x.transpose(1, 2).contiguous() if heads_first else x.flatten(2) for x in (pages_k, pages_v)]
    for call, names in (
        (torch_npu.npu_fused_infer_attention_score, ("num_heads", "scale", "actual_seq_lengths", "actual_seq_lengths_kv")),
        (
            torch_npu.npu_fused_infer_attention_score_v2,
            ("num_query_heads", "softmax_scale", "actual_seq_qlen", "actual_seq_kvlen"),
        ),
    ):
        options = dict(zip(names, (4, 8**-0.5, [3, 4], lengths_kv), strict=True))
        out, _ = call(
            q.to(device), *(x.to(device) for x in pages), num_key_value_heads=2, input_layout="TND", sparse_mode=3,
            atten_mask=causal.to(device), block_table=table.to(device), block_size=2, **options,
        )  # fmt: skip
        assert_close(out, torch.cat(expected), rtol=1e-9, atol=1e-9)
        turned, _ = call(
            q.to(device), *(x.to(device) for x in pages), num_key_value_heads=2, input_layout="TND_NTD", sparse_mode=3,
            atten_mask=causal.to(device), block_table=table.to(device), block_size=2, **options,
        )  # fmt: skip
        assert torch.equal(turned, out.transpose(0, 1))
    with pytest.raises(ValueError, match="the layout is BSH, BSND, BNSD or TND"):
        torch_npu.npu_fused_infer_attention_score_v2(q, q, q, input_layout="SBH")
    with pytest.raises(ValueError, match="block_table needs the actual lengths of the keys"):
        torch_npu.npu_fused_infer_attention_score_v2(q, *pages, input_layout="TND", block_table=table)
    with pytest.raises(NotImplementedError, match="does not offer the argument quant_scale_out"):
        torch_npu.npu_fused_infer_attention_score_v2(q, q, q, quant_scale_out=torch.ones(1))


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_sequence_ends_can_be_tensors(device):
    q, k, v = (x.transpose(1, 2).flatten(0, 1).to(device) for x in QKV)
    first = torch_npu.npu_fusion_attention(q, k, v, 4, "TND", scale=0.3, actual_seq_qlen=[6, 12], actual_seq_kvlen=[6, 12])
    ends = torch.tensor([6, 12], device=device)
    third = torch_npu.npu_fusion_attention_v3(q, k, v, 4, "TND", scale=0.3, actual_seq_qlen=ends, actual_seq_kvlen=ends)
    assert len(third) == 6 and all(torch.equal(a, b) for a, b in zip(first[:4], third[:4], strict=True))
    assert [x.tolist() for x in third[4:]] == [[0], [0]]


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_floyd_attention(device):
    q, k1, v1 = rand(2, 2, 3, 4, 5), rand(2, 2, 3, 6, 5), rand(2, 2, 3, 6, 5, seed=1)
    k2, v2, mask = rand(2, 2, 6, 4, 5), rand(2, 2, 6, 4, 5, seed=1), torch.zeros(2, 1, 3, 1, 6, dtype=torch.bool)
    mask[..., 2:4] = True
    expected = torch.zeros_like(q)
    lse = torch.zeros(2, 2, 3, 4, dtype=torch.double)
    for b, h, n, m in itertools.product(range(2), range(2), range(3), range(4)):
        scores = 0.5 * (k1[b, h, n] + k2[b, h, :, m]) @ q[b, h, n, m]
        scores = scores.masked_fill(mask[b, 0, n, 0], float("-inf"))
        expected[b, h, n, m] = scores.softmax(0) @ (v1[b, h, n] + v2[b, h, :, m])
        lse[b, h, n, m] = scores.logsumexp(0)
    most, total, out = torch_npu.npu_fused_floyd_attention(
        *(x.to(device) for x in (q, k1, v1, k2, v2)), atten_mask=mask.to(device), scale_value=0.5
    )
    assert_close(out, expected, rtol=1e-9, atol=1e-9)
    assert most.shape == total.shape == (2, 2, 3, 4, 8)
    assert_close((most + total.log())[..., 0].double(), lse)
    call = lambda *given: torch_npu.npu_fused_floyd_attention(*given, scale_value=0.5)[2]  # noqa: E731
    assert gradcheck(call, [x.clone().requires_grad_() for x in (q, k1, v1, k2, v2)], fast_mode=True)
