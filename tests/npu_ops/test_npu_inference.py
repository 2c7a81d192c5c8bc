"""Operators of the namespace npu for language model inference equal loops over tokens in plain PyTorch."""

import pytest
import torch
import torch.nn.functional as F
import torch_npu

from tests.compare import assert_close
from tests.support import rand

DEVICES = pytest.mark.parametrize("device", ["cpu", "npu"])


def rms_norm(x, gamma, eps=1e-5):
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + eps) * gamma


def turned(x, cos, sin):
    """Rotates pairs of neighbours (a, b) to (a cos - b sin, b cos + a sin); the first elements of all pairs come first."""
    half = x.size(-1) // 2
    out = torch.empty_like(x)
    for i in range(half):
        a, b = x[..., 2 * i], x[..., 2 * i + 1]
        out[..., i] = a * cos[..., i] - b * sin[..., i]
        out[..., half + i] = b * cos[..., half + i] + a * sin[..., half + i]
    return out


def in_pieces(pages, piece):
    """Pages [blocks, block, 1, D] with tokens split into pieces as in the format FRACTAL_NZ; the shape is the same."""
    blocks, block, _, width = pages.shape
    return pages.view(blocks, block, width // piece, piece).transpose(1, 2).reshape(pages.shape)


T, HE, HCQ, N, D, DR, HCKV = 3, 12, 8, 2, 6, 4, 16


def prolog_inputs():
    x, dq, uq = rand(T, HE).float(), rand(HE, HCQ).float(), rand(HCQ, N * (D + DR)).float()
    uk, dkv = rand(N, D, HCKV).float(), rand(HE, HCKV + DR).float()
    gammas, tables = (rand(HCQ).float(), rand(HCKV).float()), (rand(T, DR, seed=1).float(), rand(T, DR).float())
    return x, dq, uq, uk, dkv, *gammas, *tables


@DEVICES
@pytest.mark.parametrize("version", [1, 2])
def test_the_prolog_of_latent_attention(device, version):
    x, dq, uq, uk, dkv, gamma_q, gamma_kv, sin, cos = inputs = prolog_inputs()
    c = (rms_norm(x @ dq, gamma_q) @ uq).view(T, N, D + DR)
    query = torch.stack([c[:, n, :D] @ uk[n] for n in range(N)], 1)
    rope = turned(c[..., D:], cos.unsqueeze(1), sin.unsqueeze(1))
    kv, kr = rand(2, 4, 1, HCKV).float(), rand(2, 4, 1, DR).float()
    index = torch.tensor([5, -1, 0])
    expected = kv.clone(), kr.clone()
    for token, slot in enumerate(index.tolist()):
        if slot >= 0:
            expected[0][slot // 4, slot % 4, 0] = rms_norm((x @ dkv)[token, :HCKV], gamma_kv)
            expected[1][slot // 4, slot % 4, 0] = turned((x @ dkv)[token, HCKV:], cos[token], sin[token])
    caches = kv.clone().to(device), kr.clone().to(device)
    call = torch_npu.npu_mla_prolog if version == 1 else torch_npu.npu_mla_prolog_v2
    results = call(*(t.to(device) for t in inputs), index.to(device), *caches)
    assert_close(results[:4], (query, rope, *expected))
    assert results[2].data_ptr() == caches[0].data_ptr() and results[3].data_ptr() == caches[1].data_ptr()
    assert len(results) == 3 + version and (version == 1 or results[4].tolist() == [0])
    nothing = [t[:0] if i in (0, 7, 8) else t for i, t in enumerate(inputs)]
    none = call(*(t.to(device) for t in nothing), index[:0].to(device), kv.to(device), kr.to(device))
    assert none[0].shape == (0, N, HCKV) and none[1].shape == (0, N, DR)
    batched = [t.view(1, T, -1) if i in (0, 7, 8) else t for i, t in enumerate(inputs)]
    again = call(*(t.to(device) for t in batched), index.view(1, T).to(device), kv.to(device), kr.to(device))
    assert_close(again[0].cpu(), query.view(1, T, N, HCKV))
    half = [t.half() if t.is_floating_point() else t for t in inputs]
    narrow = call(*(t.to(device) for t in half), index.to(device), kv.half().to(device), kr.half().to(device))
    assert_close(narrow[0].cpu().float(), query, rtol=2e-2, atol=2e-2)


@DEVICES
def test_the_prolog_of_quantised_tokens(device):
    x, dq, uq, uk, dkv, gamma_q, gamma_kv, sin, cos = prolog_inputs()
    quantised = lambda t, dim: (lambda s: ((t / s).round().to(torch.int8), s))(t.abs().amax(dim, keepdim=True) / 127)  # noqa: E731
    (x8, sx), (dq8, sdq), (uq8, suq), (dkv8, sdkv) = quantised(x, 1), quantised(dq, 0), quantised(uq, 0), quantised(dkv, 0)
    smooth = rand(1, HCQ, seed=4).abs().float() + 0.5
    c = rms_norm((x8.float() @ dq8.float()) * sx * sdq, gamma_q)
    c8, sc = quantised(c * smooth, 1)
    c = ((c8.float() @ uq8.float()) * sc * suq).view(T, N, D + DR)
    query = torch.stack([c[:, n, :D] @ uk[n] for n in range(N)], 1)
    rope = turned(c[..., D:], cos.unsqueeze(1), sin.unsqueeze(1))
    options = {
        "dequant_scale_x": sx,
        "dequant_scale_w_dq": sdq,
        "dequant_scale_w_uq_qr": suq,
        "dequant_scale_w_dkv_kr": sdkv,
        "smooth_scales_cq": smooth,
    }
    options = {name: t.to(device) for name, t in options.items()}
    tensors = [t.to(device) for t in (x8, dq8, uq8, uk, dkv8, gamma_q, gamma_kv, sin, cos, torch.tensor([2, 0, 1]))]
    caches = torch.zeros(1, 4, 1, HCKV, device=device), torch.zeros(1, 4, 1, DR, device=device)
    results = torch_npu.npu_mla_prolog_v2(*tensors, *caches, **options)
    assert_close(results[:2], (query, rope), rtol=1e-3, atol=1e-3)
    latent = rms_norm(((x8.float() @ dkv8.float()) * sx * sdkv)[:, :HCKV], gamma_kv)
    assert_close(results[2][0, [2, 0, 1], 0].cpu(), latent)
    caches = torch.zeros(1, 4, 1, HCKV, dtype=torch.int8, device=device), torch.zeros(1, 4, 1, DR, device=device)
    scale = torch.full((1, HCKV), 20.0)
    results = torch_npu.npu_mla_prolog_v2(*tensors, *caches, quant_scale_ckv=scale.to(device), **options)
    scales = query.abs().amax(-1, keepdim=True) / 127
    assert results[0].dtype == torch.int8
    assert_close(results[4], scales, rtol=1e-3)
    assert (results[0].cpu() - (query / scales).round()).abs().max() <= 1
    assert_close(results[1].cpu(), rope * 20 / scales, rtol=1e-3, atol=1e-2)
    assert (results[2][0, [2, 0, 1], 0].cpu() - (latent * 20).round()).abs().max() <= 1
    third = torch_npu.npu_mla_prolog_v3(
        *tensors[:9], *caches, cache_index=tensors[9], quant_scale_ckv=scale.to(device), weight_quant_mode=2,
        kv_cache_quant_mode=1, query_quant_mode=1, query_norm_flag=True, **options,
    )  # fmt: skip
    assert all(torch.equal(a, b) for a, b in zip(third[:3], (*results[:2], results[4]), strict=True))
    assert third[3].dtype == torch.int8 and third[4].shape == (T, 1)


@DEVICES
def test_the_third_prolog_gives_the_norm_and_scales_it(device):
    x, dq, uq, uk, dkv, gamma_q, gamma_kv, sin, cos = inputs = prolog_inputs()
    norm = 2 * rms_norm(x @ dq, gamma_q)
    c = (norm @ uq).view(T, N, D + DR)
    query = torch.stack([c[:, n, :D] @ uk[n] for n in range(N)], 1)
    rope = turned(c[..., D:], cos.unsqueeze(1), sin.unsqueeze(1))
    kv = 3 * rms_norm((x @ dkv)[:, :HCKV], gamma_kv)
    caches = torch.zeros(T, 1, HCKV, device=device), torch.zeros(T, 1, DR, device=device)
    tensors = [t.to(device) for t in inputs]
    options = {"cache_mode": "TND", "qc_qr_scale": 2.0, "kc_scale": 3.0}
    *results, kv_cache, kr_cache = torch_npu.npu_mla_prolog_v3_functional(*tensors, *caches, query_norm_flag=True, **options)
    assert not caches[0].any() and results[2].numel() == results[4].numel() == 0
    assert_close((results[0], results[1], results[3]), (query, rope, norm))
    assert_close((kv_cache[:, 0], kr_cache[:, 0]), (kv, turned((x @ dkv)[:, HCKV:], cos, sin)))
    again = torch_npu.npu_mla_prolog_v3(*tensors, *caches, **options)
    assert torch.equal(caches[0], kv_cache) and again[3].numel() == 0
    pages = torch.zeros(1, 4, 1, HCKV, device=device), torch.zeros(1, 4, 1, DR, device=device)
    torch_npu.npu_mla_prolog_v3(*tensors, *pages, cache_index=torch.tensor([2, 0, 3]).to(device))
    assert_close(pages[0][0, [2, 0, 3], 0].cpu(), kv / 3)
    with pytest.raises(ValueError, match="weight_quant_mode is 1, but tokens and weights are of mode 0"):
        torch_npu.npu_mla_prolog_v3(*tensors, *pages, weight_quant_mode=1)
    with pytest.raises(ValueError, match="the cache mode PA_BSND needs cache_index"):
        torch_npu.npu_mla_prolog_v3(*tensors, *pages)


@DEVICES
@pytest.mark.parametrize("mode", ["Norm", "PA", "PA_NZ"])
def test_keys_are_normalised_rotated_and_cached(device, mode):
    kv, gamma = rand(2, 1, 3, 32 + 16).half(), rand(32).half()
    cos, sin = rand(2, 1, 3, 16).half(), rand(2, 1, 3, 16, seed=1).half()
    latent = rms_norm(kv[..., :32].float(), gamma.float())
    rope = turned(kv[..., 32:].float(), cos.float(), sin.float())
    if mode == "Norm":
        caches, index = [torch.zeros(2, 1, 5, width).half() for width in (16, 32)], torch.tensor([[4, 0, 2], [1, 2, 3]])
        wanted = [cache.clone() for cache in caches]
        for b in range(2):
            for s in range(3):
                wanted[0][b, 0, index[b, s]], wanted[1][b, 0, index[b, s]] = rope[b, 0, s].half(), latent[b, 0, s].half()
    else:
        caches, index = [torch.zeros(2, 4, 1, width).half() for width in (16, 32)], torch.tensor([7, 0, 2, 1, 5, 6])
        wanted = [cache.clone() for cache in caches]
        for token, slot in enumerate(index.tolist()):
            b, s = divmod(token, 3)
            wanted[0][slot // 4, slot % 4, 0], wanted[1][slot // 4, slot % 4, 0] = rope[b, 0, s].half(), latent[b, 0, s].half()
        if mode == "PA_NZ":
            wanted = [in_pieces(pages, 16) for pages in wanted]
    tensors = [t.to(device) for t in (kv, gamma, cos, sin, index, *caches)]
    k, ckv, own_rope, own_latent = torch_npu.npu_kv_rmsnorm_rope_cache(*tensors, cache_mode=mode, is_output_kv=True)
    assert_close((k, ckv), tuple(wanted), rtol=2e-3, atol=2e-3)
    assert_close((own_rope, own_latent), (rope.half(), latent.half()), rtol=2e-3, atol=2e-3)
    assert k.data_ptr() == tensors[5].data_ptr()


@DEVICES
@pytest.mark.parametrize("mode", ["Norm", None, "PA_NZ"])
def test_tokens_are_scattered_into_pages(device, mode):
    key, value, slots = rand(4, 2, 8).float(), rand(4, 2, 16).float(), torch.tensor([6, 0, -1, 3], dtype=torch.int32)
    pages = [torch.ones(2, 4, 2, width) for width in (8, 16)]
    for token, slot in enumerate(slots.tolist()):
        if slot >= 0:
            pages[0][slot // 4, slot % 4], pages[1][slot // 4, slot % 4] = key[token], value[token]
    if mode == "PA_NZ":
        pages = [page.reshape(2, 4, -1, 8).transpose(1, 2).contiguous() for page in pages]
    caches = [torch.ones_like(page, device=device) for page in pages]
    given = [t.to(device) for t in (key, value)]
    copies = torch_npu.npu_scatter_pa_kv_cache_functional(*given, *caches, slots.to(device), cache_mode=mode)
    assert_close(tuple(copies), tuple(pages))
    assert all((cache == 1).all() for cache in caches)
    assert torch_npu.npu_scatter_pa_kv_cache(*given, *caches, slots.to(device), cache_mode=mode) is None
    assert_close(tuple(caches), tuple(pages))


@DEVICES
@pytest.mark.parametrize("offset", [None, [2, 0]])
def test_tokens_are_gathered_from_pages(device, offset):
    pages, tables, lengths = rand(5, 2, 3, 4).float(), torch.tensor([[4, 0, 2], [1, -1, 3]], dtype=torch.int32), [3, 4]
    values = rand(5, 2, 3, 5).float()
    expected = []
    for b, size in enumerate(lengths):
        start = 0 if offset is None else offset[b] // 2
        for j in range(size):
            column = start + j // 2
            page = tables[b, column].item() if column < 3 else -1
            expected.append((pages[page, j % 2], values[page, j % 2]) if page >= 0 else (torch.zeros(3, 4), torch.zeros(3, 5)))
    wanted = [torch.stack([*column, torch.full_like(column[0], 9.0)]) for column in zip(*expected, strict=True)]
    put = lambda t: t.to(device)  # noqa: E731
    filled = torch.full((8, 3, 4), 9.0, device=device), torch.full((8, 3, 5), 9.0, device=device)
    options = {} if offset is None else {"seq_offset": put(torch.tensor(offset))}
    given = put(pages), put(values), put(tables)
    ends = put(torch.tensor([0, 3, 7]))
    copies = torch_npu.npu_gather_pa_kv_cache_functional(*given, ends, *filled, is_seq_lens_cumsum=True, **options)
    assert_close(tuple(copies), tuple(wanted))
    assert (filled[0] == 9).all()
    assert torch_npu.npu_gather_pa_kv_cache(*given, put(torch.tensor(lengths)), *filled, **options) is None
    assert_close(filled, tuple(wanted))


@DEVICES
def test_a_step_to_the_next_token(device):
    tables = torch.tensor([[4, 2, 9], [1, 3, 5], [7, 0, 6]], device=device)
    state = [torch.tensor(row, device=device) for row in ([1, 2, 3], [0, 0, 8], [3, 4, 9], [9, 9, 9])]
    tokens, positions, lengths, slots = state
    torch_npu.npu_advance_step_flashattn(
        tokens, torch.tensor([[11], [12]], device=device), positions, lengths, slots, tables, 3, 2, 4
    )
    assert [t.tolist() for t in state] == [[11, 12, 0], [3, 4, 0], [4, 5, 9], [4 * 4 + 3, 3 * 4 + 0, -1]]
    state = [torch.tensor(row, device=device) for row in ([0] * 4, [2, 3, 6, 7], [0] * 4, [0] * 4)]
    tokens, positions, lengths, slots = state
    torch_npu.npu_advance_step_flashattn(
        tokens, torch.tensor([[11, -1], [12, 13]], device=device), positions, lengths, slots, tables[:2], 2, 2, 4,
        spec_token=torch.tensor([[21], [22]], device=device), accepted_num=torch.tensor([0, 1], device=device),
    )  # fmt: skip
    assert [t.tolist() for t in state] == [[11, 21, 13, 22], [3, 4, 8, 9], [4, 5, 9, 10], [19, 8, 20, 21]]


def delta_rule(q, k, v, beta, g, gk, scale, state):
    """(out, states) of one sequence, computed head by head and token by token."""
    out, states, heads = torch.zeros_like(v), [], v.size(1)
    state = state.clone()
    for t in range(len(v)):
        for n in range(heads):
            own = n // (heads // k.size(1))
            s = state[n] * g[t, n].exp() * gk[t, n].exp()
            s = s + torch.outer(beta[t, n] * (v[t, n] - s @ k[t, own]), k[t, own])
            state[n], out[t, n] = s, scale * (s @ q[t, own])
        states.append(state.clone())
    return out, torch.stack(states)


@DEVICES
def test_the_gated_delta_rule(device):
    q, k, v, beta = rand(5, 2, 4).float(), rand(5, 2, 4, seed=1).float(), rand(5, 4, 3).float(), rand(5, 4).abs().float()
    g, gk, state = -rand(5, 4, seed=1).abs().float(), -rand(5, 4, 4).abs().float(), rand(7, 4, 3, 4).float()
    slots, accepted = torch.tensor([6, 2, 0, 1, 5]), torch.tensor([2, 1])
    expected, wanted = [], state.clone()
    for first, last, of in ((0, 3, slots[1]), (3, 5, slots[3])):
        own = slice(first, last)
        out, states = delta_rule(q[own], k[own], v[own], beta[own], g[own], gk[own], 0.5, state[of])
        expected.append(out)
        wanted[slots[own]] = states
    put = lambda t: t.to(device)  # noqa: E731
    options = {
        "beta": put(beta), "scale": 0.5, "actual_seq_lengths": put(torch.tensor([3, 2])), "ssm_state_indices": put(slots.int()),
        "num_accepted_tokens": put(accepted.int()), "g": put(g), "gk": put(gk),
    }  # fmt: skip
    given = put(state.clone())
    out, after = torch_npu.npu_recurrent_gated_delta_rule_functional(put(q), put(k), put(v), given, **options)
    assert_close((out, after), (torch.cat(expected), wanted))
    assert_close(given.cpu(), state)
    assert_close(torch_npu.npu_recurrent_gated_delta_rule(put(q), put(k), put(v), given, **options).cpu(), torch.cat(expected))
    assert_close(given.cpu(), wanted)
    options["actual_seq_lengths"] = put(torch.tensor([3, 2, 0]))  # the last sequence has no tokens
    options["num_accepted_tokens"] = put(torch.tensor([2, 1, 1]))
    again = torch_npu.npu_recurrent_gated_delta_rule(put(q), put(k), put(v), put(state.clone()), **options)
    assert_close(again.cpu(), torch.cat(expected))
    ones, zeros = torch.ones(5, 4), torch.zeros(5, 4)
    plain = torch_npu.npu_recurrent_gated_delta_rule(put(q), put(k), put(v), put(state.clone()))
    each = [delta_rule(*(x[t : t + 1] for x in (q, k, v, ones, zeros, torch.zeros(5, 4, 4))), 0.5, state[t])[0] for t in range(5)]
    assert_close(plain.cpu(), torch.cat(each))
    first = rand(2, 4, 3, 4, seed=9).float()
    parts = [
        delta_rule(*(x[own] for x in (q, k, v, beta, g, torch.zeros(5, 4, 4))), 1.0, first[i])
        for i, own in enumerate((slice(0, 3), slice(3, 5)))
    ]
    out, last = torch_npu.npu_chunk_gated_delta_rule(
        put(q), put(k), put(v), beta=put(beta), g=put(g), initial_state=put(first), actual_seq_lengths=put(torch.tensor([3, 2]))
    )
    assert_close((out, last), (torch.cat([part[0] for part in parts]), torch.stack([part[1][-1] for part in parts])))
    assert (
        torch_npu.npu_chunk_gated_delta_rule(put(q).bfloat16(), put(k).bfloat16(), put(v).bfloat16())[0].dtype == torch.bfloat16
    )


def causal_convolution(before, x, weight):
    whole = torch.cat((before, x)).t().unsqueeze(0)
    return F.conv1d(whole, weight.t().unsqueeze(1), groups=x.size(1))[0].t()


@DEVICES
def test_causal_convolutions_keep_the_last_tokens(device):
    put = lambda t: t.to(device)  # noqa: E731
    x, weight, states = rand(7, 4).float(), rand(3, 4).float(), rand(4, 2, 4).float()
    starts, slots = torch.tensor([0, 4, 5, 7]), torch.tensor([2, 0, -1])
    own = put(states.clone())
    out = torch_npu.npu_fused_causal_conv1d(
        put(x), put(weight), own, query_start_loc=put(starts.int()), cache_indices=put(slots.int()), residual_connection=1
    )
    expected = torch.cat(
        (causal_convolution(states[2], x[:4], weight) + x[:4], causal_convolution(states[0], x[4:5], weight) + x[4:5], 0 * x[5:])
    )
    assert_close(out.cpu(), expected)
    wanted = states.clone()
    wanted[2], wanted[0] = x[2:4], torch.stack((states[0, 1], x[4]))
    assert_close(own.cpu(), wanted)
    out = torch_npu.npu_fused_causal_conv1d(
        put(x), put(weight), put(states.clone()), query_start_loc=put(starts.int()), conv_mode="pangu",
        num_computed_tokens=put(torch.tensor([0, 1, 5])),
    )  # fmt: skip
    first = causal_convolution(torch.zeros(2, 4), x[:4], weight)
    first[:2] = 0
    assert_close(out[:4].cpu(), first)
    assert (out[4] == 0).all()
    assert_close(out[5:].cpu(), causal_convolution(states[2], x[5:], weight))


@DEVICES
def test_causal_convolutions_after_accepted_tokens(device):
    x, weight, states, accepted = rand(2, 3, 4).float(), rand(3, 4).float(), rand(2, 4, 4).float(), [1, 3]
    own = states.clone().to(device)
    out = torch_npu.npu_fused_causal_conv1d(
        x.to(device), weight.to(device), own, num_accepted_tokens=torch.tensor(accepted, device=device)
    )
    for b, count in enumerate(accepted):
        before = states[b, count - 1 : count + 1]
        assert_close(out[b].cpu(), causal_convolution(before, x[b], weight))
        assert_close(own[b].cpu(), torch.cat((states[b, : count + 1], x[b]))[-4:])


@DEVICES
def test_causal_convolutions_fill_the_blocks_of_a_prefix_cache(device):
    x, weight, states = rand(9, 4).float(), rand(3, 4).float(), rand(5, 2, 4).float()
    own = states.clone().to(device)
    number = lambda n: torch.tensor([n], device=device, dtype=torch.int32)  # noqa: E731
    out = torch_npu.npu_fused_causal_conv1d(
        x.to(device), weight.to(device), own, query_start_loc=torch.tensor([0, 9], device=device),
        cache_indices=torch.tensor([[3, 1, 4]], device=device), num_computed_tokens=number(2), block_size=4,
        block_idx_first_scheduled_token=number(0), block_idx_last_scheduled_token=number(2), initial_state_idx=number(0),
    )  # fmt: skip
    assert_close(out.cpu(), causal_convolution(states[3], x, weight))
    # Tokens 2 to 10 are computed. Blocks of four end after the tokens 3 and 7, which are x[1] and x[5].
    wanted = states.clone()
    wanted[4], wanted[3], wanted[1] = x[7:9], x[0:2], x[4:6]
    assert_close(own.cpu(), wanted)


@DEVICES
def test_a_causal_convolution_of_batches(device):
    x, weight, mask = rand(6, 2, 4).half(), rand(3, 4).half(), torch.tensor([[True] * 6, [True] * 3 + [False] * 3])
    expected = torch.stack([causal_convolution(torch.zeros(2, 4), x[:, b].float(), weight.float()) for b in range(2)], 1)
    assert_close(torch_npu.npu_masked_causal_conv1d(x.to(device), weight.to(device)).cpu(), expected.half(), rtol=1e-3, atol=1e-3)
    expected[3:, 1] = 0
    masked = torch_npu.npu_masked_causal_conv1d(x.to(device), weight.to(device), mask=mask.to(device))
    assert_close(masked.cpu(), expected.half(), rtol=1e-3, atol=1e-3)


def written(function, *caches):
    """The results of the function, and copies of the caches after its writes."""
    caches = [cache.clone() for cache in caches]
    results = function(*caches)
    return [*(results if isinstance(results, tuple) else (results,)), *caches]


def compiled_cases():
    """Name -> (function, its tensors)."""
    q, k, w = rand(2, 3, 4, 8).float(), rand(2, 5, 1, 8).float(), rand(2, 3, 4).float()
    indices, lengths = torch.tensor([0, 3, -1], dtype=torch.int32).expand(2, 3, 1, 3), torch.tensor([5, 4])
    ends_q, ends_k = torch.tensor([2, 6]), torch.tensor([4, 10])
    pages, slots = torch.zeros(2, 4, 1, 8), torch.tensor([3, -1, 6])
    kv_cache, kr_cache = torch.zeros(2, 4, 1, HCKV), torch.zeros(2, 4, 1, DR)
    a, b = rand(2, 3, 8).char(), rand(2, 8, 4).char()
    return {
        "lightning_indexer": (
            lambda q, k, w, n: torch_npu.npu_lightning_indexer(
                q, k, w, actual_seq_lengths_key=n, sparse_count=4, return_value=True
            ),
            (q, k, w, lengths),
        ),
        "lightning_indexer of packed tokens": (
            lambda q, k, w, m, n: torch_npu.npu_lightning_indexer(
                q, k, w, actual_seq_lengths_query=m, actual_seq_lengths_key=n, layout_query="TND", layout_key="TND",
                sparse_count=4,
            ),
            (q.flatten(0, 1), k.flatten(0, 1), w.flatten(0, 1), ends_q, ends_k),
        ),
        "sparse_flash_attention": (
            lambda q, k, i: torch_npu.npu_sparse_flash_attention(q, k, k, i, 0.5, return_softmax_lse=True),
            (q, k, indices),
        ),
        "block_sparse_attention": (
            lambda q, k, m: torch_npu.npu_block_sparse_attention(
                q, k, k, m, [2, 2], q_input_layout="BNSD", kv_input_layout="BNSD", num_key_value_heads=1, scale_value=0.5
            ),
            (q.transpose(1, 2), k.transpose(1, 2), torch.ones(2, 4, 2, 3)),
        ),
        "mla_prolog_v2": (
            lambda *t: written(lambda *caches: torch_npu.npu_mla_prolog_v2(*t[:10], *caches), *t[10:]),
            (*prolog_inputs(), slots, kv_cache, kr_cache),
        ),
        "scatter_pa_kv_cache": (
            lambda x, pages, slots: written(
                lambda *caches: torch_npu.npu_scatter_pa_kv_cache(x, x, *caches, slots, cache_mode="Norm") or x, pages, pages
            ),
            (rand(3, 1, 8).float(), pages, slots),
        ),
        "fused_infer_attention_score_v2": (
            lambda q, k, s: torch_npu.npu_fused_infer_attention_score_v2(
                q, k, k, learnable_sink=s, num_query_heads=4, num_key_value_heads=1, input_layout="BSND_NBSD"
            ),
            (q, k, rand(4).float()),
        ),
        "mhc": (
            lambda x, p, a, b: torch_npu.npu_mhc_post(
                x, torch_npu.npu_mhc_sinkhorn(torch_npu.npu_mhc_pre(x, p, a, b)[2])[0], *torch_npu.npu_mhc_pre(x, p, a, b)[:2]
            ),
            (rand(2, 3, 4).float(), rand(15, 12).float(), rand(3).float(), rand(15).float()),
        ),
        "quantisation": (
            lambda x, r: (*torch_npu.npu_dynamic_block_quant(x), *torch_npu.npu_rotate_quant(x, r)),
            (rand(3, 16).float(), rand(8, 8).float()),
        ),
        "quant_matmul_reduce_sum": (
            lambda a, b, s, t: torch_npu.npu_quant_matmul_reduce_sum(a, b, x1_scale=s, x2_scale=t),
            (a, b, rand(2, 3).float(), rand(4).float()),
        ),
        "masked_causal_conv1d": (torch_npu.npu_masked_causal_conv1d, (rand(5, 2, 4).float(), rand(3, 4).float())),
        "moe_update_expert": (
            lambda i, t: torch_npu.npu_moe_update_expert(i, t, balance_mode=1),
            (torch.tensor([[0, 1], [1, 0]]), torch.tensor([[1, 5, 0], [2, 2, 3]])),
        ),
        "moe_re_routing": (torch_npu.npu_moe_re_routing, (rand(4, 3).float(), torch.tensor([[1, 2], [1, 0]]))),
    }  # fmt: skip


QUICK = ("sparse_flash_attention", "mla_prolog_v2", "mhc")
SLOWER = [name for name in compiled_cases() if name not in QUICK]


@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(name, marks=pytest.mark.full) for name in SLOWER)])
def test_torch_compile_traces_inference_operators(name):
    function, tensors = compiled_cases()[name]
    expected = function(*tensors)
    tensors = [t.npu() for t in tensors]
    torch._dynamo.reset()
    got = torch.compile(function, backend="aot_eager", fullgraph=True)(*tensors)
    assert len(got) == len(expected)
    for one, other in zip(got, expected, strict=True):
        assert_close(one.cpu(), other)


def test_arguments_that_do_not_fit_are_refused():
    inputs = prolog_inputs()
    caches = torch.zeros(2, 4, 1, HCKV), torch.zeros(2, 4, 1, DR)
    with pytest.raises(ValueError, match="npu_mla_prolog_v2: cache_mode is PA_BSND or PA_NZ, not BSND"):
        torch_npu.npu_mla_prolog_v2(*inputs, torch.arange(T), *caches, cache_mode="BSND")
    with pytest.raises(ValueError, match="int8 needs dequant_scale_x"):
        torch_npu.npu_mla_prolog_v2(inputs[0].char(), inputs[1].char(), *inputs[2:], torch.arange(T), *caches)
    with pytest.raises(ValueError, match="an int8 kv_cache needs quant_scale_ckv"):
        torch_npu.npu_mla_prolog(*inputs, torch.arange(T), caches[0].char(), caches[1])
    with pytest.raises(NotImplementedError, match="does not offer the argument dequant_scale_x"):
        torch_npu.npu_mla_prolog(*inputs, torch.arange(T), *caches, dequant_scale_x=torch.ones(T, 1))
    with pytest.raises(ValueError, match="3 tokens, but 2 slots"):
        torch_npu.npu_mla_prolog(*inputs, torch.arange(2), *caches)
    key = rand(3, 2, 8)
    with pytest.raises(ValueError, match=r"a cache of tokens \[2, 8\] is .* not \[2, 4, 2, 9\]"):
        torch_npu.npu_scatter_pa_kv_cache(key, key, *[rand(2, 4, 2, 9)] * 2, torch.arange(3), cache_mode="Norm")
    with pytest.raises(ValueError, match=r"key is torch.float64, but its cache is torch.float32"):
        torch_npu.npu_scatter_pa_kv_cache(key, key, *[torch.ones(2, 4, 2, 8)] * 2, torch.arange(3), cache_mode="Norm")
    with pytest.raises(ValueError, match="actual_seq_lengths add up to 7, but there are 3 tokens"):
        torch_npu.npu_recurrent_gated_delta_rule(key, key, key, rand(3, 2, 8, 8), actual_seq_lengths=torch.tensor([7]))
    with pytest.raises(ValueError, match="conv_mode is default or pangu, not other"):
        torch_npu.npu_fused_causal_conv1d(rand(1, 3, 4), rand(3, 4), rand(1, 2, 4), conv_mode="other")
    with pytest.raises(ValueError, match=r"x \[T, dim\] needs query_start_loc"):
        torch_npu.npu_fused_causal_conv1d(rand(3, 4), rand(3, 4), rand(1, 2, 4))
    with pytest.raises(ValueError, match=r"mask is \[2, 6\], not \[6, 2\]"):
        torch_npu.npu_masked_causal_conv1d(rand(6, 2, 4), rand(3, 4), mask=torch.ones(6, 2, dtype=torch.bool))
