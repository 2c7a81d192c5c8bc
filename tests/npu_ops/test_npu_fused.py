"""Fused operators of the namespace npu equal their parts, called one after the other."""

import pytest
import torch
import torch.nn.functional as F
import torch_npu

from tests.compare import assert_close
from tests.support import rand

DEVICES = pytest.mark.parametrize("device", ["cpu", "npu"])


def int8(x):
    return x.round().clamp(-128, 127).to(torch.int8)


@DEVICES
def test_norms_are_quantised(device):
    x1, x2, gamma, beta = (t.half() for t in (rand(3, 8), rand(3, 8, seed=1), rand(8), rand(8, seed=1)))
    scales, zeros = rand(8).abs().float() + 0.05, torch.arange(8) - 4
    put = lambda *tensors: [None if t is None else t.to(device) for t in tensors]  # noqa: E731
    x = x1 + x2
    norm = F.rms_norm(x.float(), (8,), gamma.float(), 1e-6)
    y1, y2, total = torch_npu.npu_add_rms_norm_quant(*put(x1, x2, gamma, scales, zeros.int(), beta, 2 * scales, None))
    assert torch.equal(y1.cpu(), int8((norm + beta.float()) / scales + zeros))
    assert torch.equal(y2.cpu(), int8((norm + beta.float()) / (2 * scales))) and torch.equal(total.cpu(), x)
    y1, y2, _ = torch_npu.npu_add_rms_norm_quant(*put(x1, x2, gamma, 20 * scales, None), div_mode=False)
    assert torch.equal(y1.cpu(), int8(norm * 20 * scales)) and y2.dtype == torch.int8 and not y2.any()
    own = torch_npu.npu_rms_norm_quant(*put(x1, gamma, beta, torch.tensor([30.0]), torch.tensor([2.0])))
    assert torch.equal(own.cpu(), int8((F.rms_norm(x1.float(), (8,), gamma.float(), 1e-6) + beta.float()) * 30 + 2))
    smooth = rand(8, seed=3).half()
    y1, y2, total, s1, s2 = torch_npu.npu_add_rms_norm_dynamic_quant(
        *put(x1, x2, gamma), smooth_scale1=smooth.to(device), smooth_scale2=beta.to(device)
    )
    for y, s, factor in ((y1, s1, smooth), (y2, s2, beta)):
        smoothed = norm * factor.float()
        assert_close(s.cpu(), smoothed.abs().amax(-1) / 127)
        assert torch.equal(y.cpu(), int8(smoothed / s.cpu().unsqueeze(1)))
    results = torch_npu.npu_add_rms_norm_dynamic_quant(*put(x1, x2, gamma), output_mask=[False, True])
    assert results[0].numel() == results[3].numel() == 0 and results[1].shape == x.shape and results[4].shape == (3,)
    assert torch_npu.npu_add_rms_norm_dynamic_quant(*put(x1, x2, gamma))[1].numel() == 0
    with pytest.raises(ValueError, match="output_mask asks for one of the results at least"):
        torch_npu.npu_add_rms_norm_dynamic_quant(x1, x2, gamma, output_mask=[False, False])


@DEVICES
def test_a_norm_is_written_over_its_arguments(device):
    x1, x2, gamma = rand(3, 8).float(), rand(3, 8, seed=1).float(), rand(8).float()
    y, rstd, x = torch_npu.npu_add_rms_norm(x1, x2, gamma)
    a, b = x1.clone().to(device), x2.clone().to(device)
    assert_close(torch_npu.npu_add_rms_norm_v2_functional(a, b, gamma.to(device)), (rstd, y, x))
    assert_close(a.cpu(), x1)
    assert_close(torch_npu.npu_add_rms_norm_v2(a, b, gamma.to(device)).cpu(), rstd)
    assert_close((a, b), (y, x))


@DEVICES
@pytest.mark.parametrize("kind", [0, 1])
def test_swiglu_is_quantised_by_groups(device, kind):
    x, smooth, offsets = rand(5, 12).float(), rand(3, 6).float(), rand(3, 6, seed=1).float() * 9
    groups = torch.tensor([2, 2, 5] if kind == 0 else [2, 0, 3], dtype=torch.int32)
    y = x[:, :6] * F.silu(x[:, 6:])
    of = torch.tensor([0, 0, 2, 2, 2])
    put = lambda t: t.to(device)  # noqa: E731
    options = {"smooth_scales": put(smooth * 50), "group_index": put(groups), "group_list_type": kind}
    out, scale = torch_npu.npu_swiglu_quant(put(x), offsets=put(offsets), **options)
    assert torch.equal(out.cpu(), int8(y * smooth[of] * 50 + offsets[of])) and not scale.any()
    out, scale = torch_npu.npu_swiglu_quant(put(x), quant_mode=1, **options)
    smoothed = y * smooth[of] * 50
    assert_close(scale.cpu(), 127 / smoothed.abs().amax(-1))
    assert torch.equal(out.cpu(), int8(smoothed * scale.cpu().unsqueeze(1)))
    left, _ = torch_npu.npu_swiglu_quant(put(x).view(1, 5, 12), smooth_scales=put(torch.tensor([40.0])), activate_left=True)
    assert torch.equal(left.cpu(), int8(40 * F.silu(x[:, :6]) * x[:, 6:]).view(1, 5, 6))


@DEVICES
@pytest.mark.parametrize("mode", [0, 1, 2])
def test_integers_become_swiglu_and_integers_again(device, mode):
    x = torch.randint(-900, 900, (5, 12), generator=torch.Generator().manual_seed(0), dtype=torch.int32)
    weight, token, quant = rand(2, 12).abs().float() / 50, rand(5, 1).abs().float(), rand(2, 6).abs().float() + 0.1
    of = torch.tensor([0, 0, 0, 1])
    rows = x[:4].float() * weight[of] * token[:4]
    active, other = (rows[:, ::2], rows[:, 1::2]) if mode == 1 else (rows[:, 6:], rows[:, :6])
    if mode == 0:
        y = F.silu(active) * other
    else:
        active, other = active.clamp(max=2.0), other.clamp(-2.0, 2.0)
        y = active * torch.sigmoid(1.5 * active) * (other + 0.5)
    put = lambda t: t.to(device)  # noqa: E731
    options = {
        "weight_scale": put(weight), "activation_scale": put(token), "quant_scale": put(quant), "swiglu_mode": mode,
        "group_index": put(torch.tensor([3, 1])), "clamp_limit": 2.0, "glu_alpha": 1.5, "glu_bias": 0.5,
    }  # fmt: skip
    out, scale = torch_npu.npu_dequant_swiglu_quant(put(x), quant_mode=1, **options)
    assert_close(scale[:4].cpu(), (y * quant[of]).abs().amax(-1) / 127)
    assert (out[:4].cpu() - (y * quant[of] / scale[:4].cpu().unsqueeze(1)).round()).abs().max() <= 1
    assert not out[4].any() and scale[4] == 0
    out, scale = torch_npu.npu_dequant_swiglu_quant(put(x), **options)
    assert (out[:4].cpu() - int8(y / quant[of])).abs().max() <= 1 and not scale.any()
    half = rand(3, 8).half()
    out, _ = torch_npu.npu_dequant_swiglu_quant(put(half), quant_scale=put(torch.tensor([0.01])), activate_left=True)
    assert (out.cpu() - int8(F.silu(half[:, :4].float()) * half[:, 4:].float() / 0.01)).abs().max() <= 1
    with pytest.raises(ValueError, match=r"torch.float16 is not dequantised"):
        torch_npu.npu_dequant_swiglu_quant(half, weight_scale=weight)


@DEVICES
@pytest.mark.parametrize("kind", [0, 1])
def test_products_of_groups_are_activated_and_quantised(device, kind):
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(-9, 9, (5, 6), generator=generator, dtype=torch.int8)
    w = torch.randint(-9, 9, (2, 6, 8), generator=generator, dtype=torch.int8)
    columns, tokens = rand(2, 8).abs().float(), rand(5).abs().float() / 20
    rows = torch.cat((x[:3].long() @ w[0].long() * columns[0], x[3:4].long() @ w[1].long() * columns[1])) * tokens[:4, None]
    y = F.silu(rows[:, :4]) * rows[:, 4:]
    groups = torch.tensor([3, 4] if kind == 0 else [3, 1])
    put = lambda t: t.to(device)  # noqa: E731
    out, scale = torch_npu.npu_grouped_matmul_swiglu_quant_v2(
        put(x), [put(w)], [put(columns)], put(tokens), put(groups), group_list_type=kind
    )
    assert_close(scale[:4].cpu(), y.abs().amax(-1) / 127)
    assert (out[:4].cpu() - int8(y / scale[:4].cpu().unsqueeze(1))).abs().max() <= 1 and not out[4].any()
    if kind == 0:
        first = torch_npu.npu_grouped_matmul_swiglu_quant(put(x), put(w), put(groups), put(columns), put(tokens))
        assert torch.equal(first[0], out) and torch.equal(first[1], scale)


@DEVICES
def test_a_product_fused_with_the_following_operation(device):
    a, b, c, bias = (t.float() for t in (rand(3, 4), rand(4, 5), rand(3, 5), rand(5)))
    call = lambda kind, third=None: torch_npu.npu_fused_matmul(  # noqa: E731
        a.to(device), b.to(device), bias=bias.to(device), x3=None if third is None else third.to(device), fused_op_type=kind
    ).cpu()
    y = a @ b + bias
    assert_close(call("add", c), y + c)
    assert_close(call("mul", c), y * c)
    assert_close(call("gelu_erf"), F.gelu(y))
    assert_close(call("gelu_tanh"), F.gelu(y, approximate="tanh"))
    assert_close(call(""), y)
    with pytest.raises(ValueError, match="x3 goes with the fused_op_type add or mul"):
        torch_npu.npu_fused_matmul(a, b, fused_op_type="add")


@DEVICES
def test_cross_entropy_of_a_part_of_the_vocabulary(device):
    x, weight, target, grad = rand(10, 6).float(), rand(12, 6).float(), torch.arange(10) * 2 % 17, rand(10).float()
    put = lambda *tensors: [t.to(device) for t in tensors]  # noqa: E731
    most, total, predicted, mask, place, logits = torch_npu.npu_fused_linear_online_max_sum(
        *put(x, weight, target), 0, 11, return_logits=True
    )
    own = x @ weight.t()
    assert_close((most, logits), (own.amax(-1), own))
    assert_close(total.cpu(), (own - own.amax(-1, keepdim=True)).exp().sum(-1))
    outside = target > 11
    assert torch.equal(place.cpu(), torch.where(outside, 0, target))
    assert_close(predicted.cpu(), torch.where(outside, 0, own[torch.arange(10), place.cpu()] - own.amax(-1)))
    bits = [int(flag) for flag in outside] + [1] * 6
    assert mask.tolist() == [int("".join(map(str, bits[i : i + 8])), 2) for i in (0, 8)] and mask.dtype == torch.uint8
    assert torch_npu.npu_fused_linear_online_max_sum(*put(x, weight, target), 0, 11)[5].numel() == 0
    loss, softmax = torch_npu.npu_fused_cross_entropy_loss_with_max_sum(most, total, predicted, vocab_parallel_logits=logits)
    leaves = x.clone().requires_grad_(), weight.clone().requires_grad_()
    expected = F.cross_entropy(leaves[0] @ leaves[1].t(), torch.where(outside, 0, target), reduction="none")
    assert_close(loss[~outside].cpu(), expected.detach()[~outside])
    assert_close(softmax.cpu(), own.softmax(-1))
    # A target outside of this part of the vocabulary contributes only its softmax.
    scores = leaves[0] @ leaves[1].t()
    parts = torch.where(outside, scores.logsumexp(-1), expected)
    (parts * grad).sum().backward()
    for options in ({"softmax": softmax}, {"logits_max": most, "sum_exp_logits": total}):
        grads = torch_npu.npu_fused_linear_cross_entropy_loss_with_max_sum_backward(*put(grad, x, weight), mask, place, **options)
        assert_close(tuple(grads), tuple(leaf.grad for leaf in leaves))
    with pytest.raises(ValueError, match="softmax is needed, or logits_max and sum_exp_logits"):
        torch_npu.npu_fused_linear_cross_entropy_loss_with_max_sum_backward(*put(grad, x, weight), mask, place)


@DEVICES
@pytest.mark.parametrize("pad", [False, True])
def test_tokens_go_where_a_map_sends_them_and_back(device, pad):
    tokens, probs = rand(4, 3).float(), rand(4, 3, seed=1).abs().float()
    routing = torch.tensor([[1, 1, 0], [0, 1, 1], [1, 0, 1], [1, 1, 0]], dtype=torch.bool)
    total = 6 if pad else 8
    rows, own, index = torch_npu.npu_moe_token_permute_with_routing_map(
        tokens.to(device), routing.to(device), probs=probs.to(device), num_out_tokens=total, drop_and_pad=pad
    )
    pairs = [(t, e) for e in range(3) for t in range(4) if routing[t, e]]
    if pad:
        pairs = [(t, e) for e in range(3) for t in [t for t, f in pairs if f == e][:2]]
    assert_close(rows.cpu(), torch.stack([tokens[t] for t, _ in pairs]))
    assert_close(own.cpu(), torch.stack([probs[t, e] for t, e in pairs]))
    places = [t for t, _ in pairs] if pad else sorted(range(8), key=lambda i: (pairs[i][0], i))
    assert index.tolist() == places and index.dtype == torch.int32
    expected = torch.zeros(4, 3)
    for t, e in pairs:
        expected[t] += 2 * tokens[t] * probs[t, e]
    back = torch_npu.npu_moe_token_unpermute_with_routing_map(
        2 * rows, index, [4, 3], probs=probs.to(device), routing_map=routing.to(device), drop_and_pad=pad
    )
    assert_close(back.cpu(), expected)
    plain = torch_npu.npu_moe_token_unpermute_with_routing_map(rows, index, [4, 3], drop_and_pad=pad)
    assert_close(plain.cpu(), torch.stack([tokens[t] * sum(t == i for i, _ in pairs) for t in range(4)]))
    with pytest.raises(ValueError, match=r"with at least one of each, not \[0, 3\]"):
        torch_npu.npu_moe_token_permute_with_routing_map(tokens[:0].to(device), routing[:0].to(device), drop_and_pad=pad)
    with pytest.raises(ValueError, match=r"with at least one token, not \[0, 3\]"):
        torch_npu.npu_moe_token_unpermute_with_routing_map(rows[:0], index[:0], [0, 3], drop_and_pad=pad)
