"""The operators of the namespace npu give what plain PyTorch gives on the CPU, on either device, with their gradients."""

import inspect
import re
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
import torch_npu
from formulas import close, rand
from torch.autograd import gradcheck
from torch_npu import ops
from torch_npu.ops._define import PUBLIC


def rotate_half(x):
    half = x.size(-1) // 2
    return torch.cat((-x[..., half:], x[..., :half]), -1)


def layer_norm(x, gamma, beta):
    return F.layer_norm(x, gamma.shape, gamma, beta, 1e-5)


def giou(a, b):
    """Of boxes (x, y, w, h), [4, n], one by one."""
    out = []
    for i in range(a.size(1)):
        (ax, ay, aw, ah), (bx, by, bw, bh) = a[:, i], b[:, i]
        width = torch.min(ax + aw / 2, bx + bw / 2) - torch.max(ax - aw / 2, bx - bw / 2)
        height = torch.min(ay + ah / 2, by + bh / 2) - torch.max(ay - ah / 2, by - bh / 2)
        common = width.clamp(min=0) * height.clamp(min=0)
        union = aw * ah + bw * bh - common
        hull_w = torch.max(ax + aw / 2, bx + bw / 2) - torch.min(ax - aw / 2, bx - bw / 2)
        hull_h = torch.max(ay + ah / 2, by + bh / 2) - torch.min(ay - ah / 2, by - bh / 2)
        out.append(common / union - (hull_w * hull_h - union) / (hull_w * hull_h))
    return torch.stack(out).unsqueeze(1)


def sinkhorn(x):
    """Three times columns, twice rows."""
    y = x.softmax(-1) + 1e-3
    for dim in (-2, -1, -2, -1, -2):
        y = y / (y.sum(dim, keepdim=True) + 1e-3)
    return y


def mixing(x, phi, alpha, bias, gamma):
    """npu_mhc_pre of three streams of four, one weight after the other."""
    flat = x.flatten(1)
    inv_rms = 1 / torch.sqrt((flat * flat).mean(1) + 1e-6)
    mix = torch.stack([(flat * gamma.flatten() * row).sum(1) for row in phi], 1)
    h = mix * inv_rms.unsqueeze(1)
    pre = torch.sigmoid(alpha[0] * h[:, :3] + bias[:3]) + 1e-6
    post = 2 / (1 + torch.exp(-(alpha[1] * h[:, 3:6] + bias[3:6])))
    res = (alpha[2] * h[:, 6:] + bias[6:]).view(-1, 3, 3)
    return torch.einsum("tn,tnd->td", pre, x), post, res, inv_rms, mix, pre


MASK = torch.ones(6, 6, dtype=torch.bool).triu(1)


# Name -> (what is called, what it has to give, the tensors). All are differentiable.
FORMULAS = {
    "rms_norm": (
        lambda x, g: torch_npu.npu_rms_norm(x, g, epsilon=1e-5)[0],
        lambda x, g: F.rms_norm(x, g.shape, g, 1e-5),
        (rand(3, 4, 6), rand(6)),
    ),
    "rms_norm over two dimensions": (
        lambda x, g: torch_npu.npu_rms_norm(x, g)[0],
        lambda x, g: F.rms_norm(x, g.shape, g, 1e-6),
        (rand(3, 4, 6), rand(4, 6)),
    ),
    "rstd": (
        lambda x, g: torch_npu.npu_rms_norm(x, g)[1],
        lambda x, g: 1 / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-6),
        (rand(3, 6), rand(6)),
    ),
    "gemma_rms_norm": (
        lambda x, g: torch_npu.npu_gemma_rms_norm(x, g)[0],
        lambda x, g: F.rms_norm(x, g.shape, g + 1, 1e-6),
        (rand(3, 6), rand(6)),
    ),
    "add_rms_norm": (
        lambda x, y, g: torch_npu.npu_add_rms_norm(x, y, g)[::2],
        lambda x, y, g: (F.rms_norm(x + y, g.shape, g, 1e-6), x + y),
        (rand(3, 6), rand(3, 6, seed=1), rand(6)),
    ),
    "add_layer_norm": (
        lambda x, y, g, b: torch_npu.npu_add_layer_norm(x, y, g, b)[::3],
        lambda x, y, g, b: (layer_norm(x + y, g, b), x + y),
        (rand(3, 6), rand(3, 6, seed=1), rand(6), rand(6, seed=1)),
    ),
    "deep_norm": (
        lambda x, y, b, g: torch_npu.npu_deep_norm(x, y, b, g, 0.3, 1e-5)[2],
        lambda x, y, b, g: layer_norm(0.3 * x + y, g, b),
        (rand(3, 6), rand(3, 6, seed=1), rand(6), rand(6, seed=1)),
    ),
    "group_norm_silu": (
        lambda x, w, b: torch_npu.npu_group_norm_silu(x, w, b, 2)[0],
        lambda x, w, b: F.silu(F.group_norm(x, 2, w, b)),
        (rand(2, 4, 3, 3), rand(4), rand(4, seed=1)),
    ),
    "group_norm_swish": (
        lambda x, w, b: torch_npu.npu_group_norm_swish(x, 2, w, b, swish_scale=2.0)[0],
        lambda x, w, b: (lambda g: g * torch.sigmoid(2 * g))(F.group_norm(x, 2, w, b)),
        (rand(2, 4, 3, 3), rand(4), rand(4, seed=1)),
    ),
    "fast_gelu": (torch_npu.fast_gelu, lambda x: x / (1 + torch.exp(-1.702 * x)), (rand(3, 6),)),
    "npu_fast_gelu": (torch_npu.npu_fast_gelu, lambda x: x / (1 + torch.exp(-1.702 * x)), (rand(3, 6),)),
    "gelu": (lambda x: torch_npu.npu_gelu(x, "tanh"), lambda x: F.gelu(x, approximate="tanh"), (rand(3, 6),)),
    "geglu": (
        lambda x: torch_npu.npu_geglu(x, dim=-1, approximate=1),
        lambda x: (x[:, :3] * F.gelu(x[:, 3:], approximate="tanh"), F.gelu(x[:, 3:], approximate="tanh")),
        (rand(4, 6),),
    ),
    "geglu of the left": (
        lambda x: torch_npu.npu_geglu(x, 0, 0, True)[0],
        lambda x: F.gelu(x[:2]) * x[2:],
        (rand(4, 6),),
    ),
    "swiglu": (torch_npu.npu_swiglu, lambda x: F.silu(x[:, :3]) * x[:, 3:], (rand(4, 6),)),
    "clipped_swiglu": (
        lambda x: torch_npu.npu_clipped_swiglu(x, limit=0.5),
        lambda x: (lambda a, b: a * torch.sigmoid(1.702 * a) * (b + 1))(
            torch.clamp(x[:, ::2], max=0.5), torch.clamp(x[:, 1::2], -0.5, 0.5)
        ),
        (rand(4, 6),),
    ),
    "rotary_mul": (
        torch_npu.npu_rotary_mul,
        lambda x, c, s: x * c + rotate_half(x) * s,
        (rand(2, 3, 4, 6), rand(1, 3, 1, 6), rand(1, 3, 1, 6, seed=1)),
    ),
    "rotary_mul of neighbours": (
        lambda x, c, s: torch_npu.npu_rotary_mul(x, c, s, rotary_mode="interleave"),
        lambda x, c, s: x * c + torch.stack((-x[..., 1::2], x[..., ::2]), -1).reshape(x.shape) * s,
        (rand(2, 3, 4, 6), rand(1, 3, 1, 6), rand(1, 3, 1, 6, seed=1)),
    ),
    "apply_rotary_pos_emb": (
        torch_npu.npu_apply_rotary_pos_emb,
        lambda q, k, c, s: (q * c + rotate_half(q) * s, k * c + rotate_half(k) * s),
        (rand(2, 3, 4, 6), rand(2, 3, 2, 6), rand(2, 3, 1, 6), rand(2, 3, 1, 6, seed=1)),
    ),
    "interleave_rope": (
        torch_npu.npu_interleave_rope,
        lambda x, c, s: (lambda q: q * c + rotate_half(q) * s)(torch.cat((x[..., ::2], x[..., 1::2]), -1)),
        (rand(2, 3, 4, 6), rand(2, 1, 4, 6), rand(2, 1, 4, 6, seed=1)),
    ),
    "linear": (lambda x, w, b: torch_npu.npu_linear(input_=x, weight=w, bias=b), F.linear, (rand(3, 4), rand(5, 4), rand(5))),
    "bmmV2": (lambda a, b: torch_npu.npu_bmmV2(a, b, []), torch.bmm, (rand(2, 3, 4), rand(2, 4, 5))),
    "bmmV2 summed": (
        lambda a, b: torch_npu.npu_bmmV2(a, b, [1, 3, 5]),
        lambda a, b: torch.bmm(a, b).sum(0, keepdim=True),
        (rand(2, 3, 4), rand(2, 4, 5)),
    ),
    "transpose_batchmatmul": (
        lambda a, b: torch_npu.npu_transpose_batchmatmul(a, b, perm_x1=[1, 0, 2], perm_x2=[0, 1, 2], perm_y=[1, 0, 2]),
        lambda a, b: torch.einsum("mbk,bkn->mbn", a, b),
        (rand(3, 2, 4), rand(2, 4, 5)),
    ),
    "softmax_cross_entropy": (
        torch_npu.npu_softmax_cross_entropy_with_logits,
        lambda x, y: -(y * torch.log(torch.softmax(x, 1))).sum(1),
        (rand(4, 6), rand(4, 6).abs()),
    ),
    "scaled_masked_softmax": (
        lambda x: torch_npu.npu_scaled_masked_softmax(x, MASK.to(x.device), 0.5, False),
        lambda x: torch.softmax((x * 0.5).masked_fill(MASK, -1e4), -1),
        (rand(2, 3, 6, 6),),
    ),
    "masked_softmax_with_rel_pos_bias": (
        lambda x, m, b: torch_npu.npu_masked_softmax_with_rel_pos_bias(x, m, b, 0.5),
        lambda x, m, b: torch.softmax(0.5 * x + m + b, -1),
        (rand(1, 2, 3, 4, 4), rand(1, 2, 1, 4, 4), rand(1, 1, 3, 4, 4)),
    ),
    "dropout_with_add_softmax": (
        lambda x, y: torch_npu.npu_dropout_with_add_softmax(x, y, 2.0, 0.0, -1)[1:],
        lambda x, y: (torch.softmax(y + 2 * x, -1),) * 2,
        (rand(2, 3, 4), rand(2, 3, 4, seed=1)),
    ),
    "confusion_transpose": (
        lambda x: torch_npu.npu_confusion_transpose(x, (0, 2, 1, 3), (2, 3, 2, 2), False),
        lambda x: x.view(2, 3, 2, 2).permute(0, 2, 1, 3),
        (rand(6, 4),),
    ),
    "confusion_transpose first": (
        lambda x: torch_npu.npu_confusion_transpose(x, (1, 0, 2), (3, 8), True),
        lambda x: x.permute(1, 0, 2).reshape(3, 8),
        (rand(2, 3, 4),),
    ),
    "transpose": (lambda x: torch_npu.npu_transpose(x, (1, 2, 0)), lambda x: x.permute(1, 2, 0).contiguous(), (rand(2, 3, 4),)),
    "slice": (lambda x: torch_npu.npu_slice(x, [1, 0], [2, -1]), lambda x: x[1:3].clone(), (rand(4, 5),)),
    "indexing": (
        lambda x: torch_npu.npu_indexing(x, [1, 0], [4, 3], [1, 2], begin_mask=1, end_mask=2),
        lambda x: x[:4, 0::2].clone(),
        (rand(5, 6),),
    ),
    "indexing backwards": (
        lambda x: torch_npu.npu_indexing(x, [0, 4, 2], [0, 0, 0], [1, -2, 1], ellipsis_mask=1, shrink_axis_mask=4),
        lambda x: x[..., [4, 2], 2].clone(),
        (rand(2, 5, 6),),
    ),
    "pad": (lambda x: torch_npu.npu_pad(x, [1, 2, 0, 3]), lambda x: F.pad(x, (0, 3, 1, 2)), (rand(2, 3),)),
    "stride_add": (
        lambda x, y: torch_npu.npu_stride_add(x, y, 1, 0, 1),
        lambda x, y: F.pad(x[:, 1:], (0, 0, 0, 0, 0, 13)) + F.pad(y, (0, 0, 0, 0, 0, 12)),
        (rand(2, 4, 3, 3), rand(2, 4, 3, 3, seed=1)),
    ),
    "max": (lambda x: torch_npu.npu_max(x, 1)[0], lambda x: x.amax(1), (rand(4, 5),)),
    "scatter_nd_update": (
        lambda x, u: torch_npu.npu_scatter_nd_update(x, torch.tensor([[0, 1], [2, 0]], device=x.device), u),
        lambda x, u: torch.stack([{1: u[0], 6: u[1]}.get(i, row) for i, row in enumerate(x.flatten(0, 1))]).view_as(x),
        (rand(3, 3, 2), rand(2, 2)),
    ),
    "conv3d": (
        lambda x, w, b: torch_npu.npu_conv3d(x, w, b, [1, 1, 1], [1, 1, 1], [1, 1, 1], 1),
        lambda x, w, b: F.conv3d(x, w, b, padding=1),
        (rand(1, 2, 3, 3, 3), rand(2, 2, 3, 3, 3), rand(2)),
    ),
    "giou": (lambda a, b: torch_npu.npu_giou(a, b, True), giou, (rand(4, 5).abs() + 0.1, rand(4, 5, seed=1).abs() + 0.1)),
    "moe_token_permute": (
        lambda x: torch_npu.npu_moe_token_permute(x, torch.tensor([[1, 0], [0, 2], [1, 1]], device=x.device))[0],
        lambda x: x[[0, 1, 0, 2, 2, 1]],
        (rand(3, 4),),
    ),
    "moe_token_unpermute": (
        lambda x, p: torch_npu.npu_moe_token_unpermute(x, torch.tensor([2, 0, 1, 5, 3, 4], device=x.device), p),
        lambda x, p: (x[[2, 0, 1, 5, 3, 4]].view(3, 2, 4) * p.unsqueeze(-1)).sum(1),
        (rand(6, 4), rand(3, 2)),
    ),
    "grouped_matmul": (
        lambda x, w: torch_npu.npu_grouped_matmul(
            [x], [w], group_list=torch.tensor([1, 1, 4], device=x.device), group_type=0, split_item=2
        )[0],
        lambda x, w: torch.cat((x[:1] @ w[0], x[1:4] @ w[2], torch.zeros(1, 3, dtype=x.dtype))),
        (rand(5, 4), rand(3, 4, 3)),
    ),
    "grouped_matmul by columns": (
        lambda x, w: torch_npu.npu_grouped_matmul([x], [w], group_list=[1, 4], group_type=2, split_item=3)[0],
        lambda x, w: torch.stack((x[:, :1] @ w[:1], x[:, 1:] @ w[1:])),
        (rand(3, 4), rand(4, 5)),
    ),
    "ffn": (
        lambda x, a, b: torch_npu.npu_ffn(x, a, b, "swiglu"),
        lambda x, a, b: (F.silu((x @ a)[:, :3]) * (x @ a)[:, 3:]) @ b,
        (rand(5, 4), rand(4, 6), rand(3, 4)),
    ),
    "mhc_post": (
        torch_npu.npu_mhc_post,
        lambda x, r, o, p: torch.einsum("tij,tid->tjd", r, x) + torch.einsum("td,tn->tnd", o, p),
        (rand(2, 3, 4), rand(2, 3, 3), rand(2, 4), rand(2, 3)),
    ),
    "mhc_post without mixing": (
        lambda x, o, p: torch_npu.npu_mhc_post(x, None, o, p),
        lambda x, o, p: x + torch.einsum("bsd,bsn->bsnd", o, p),
        (rand(2, 2, 3, 4), rand(2, 2, 4), rand(2, 2, 3)),
    ),
    "mhc_sinkhorn": (
        lambda x: torch_npu.npu_mhc_sinkhorn(x, num_iters=3, eps=1e-3)[0],
        sinkhorn,
        (rand(2, 4, 4),),
    ),
    "mhc_pre": (
        lambda x, p, a, b, g: torch_npu.npu_mhc_pre(x, p, a, b, gamma=g),
        mixing,
        (rand(2, 3, 4), rand(15, 12), rand(3), rand(15), rand(3, 4)),
    ),
    "masked_causal_conv1d": (
        torch_npu.npu_masked_causal_conv1d,
        lambda x, w: w[2] * x + w[1] * F.pad(x, (0, 0, 0, 0, 1, 0))[:-1] + w[0] * F.pad(x, (0, 0, 0, 0, 2, 0))[:-2],
        (rand(5, 2, 3), rand(3, 3)),
    ),
    "fused_attention_score": (
        lambda q, k, v, m: torch_npu.npu_fused_attention_score(q, k, v, m, 0.5, 1.0),
        lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m, scale=0.5).transpose(1, 2).reshape(6, 8),
        (rand(2, 2, 3, 4), rand(2, 2, 3, 4, seed=1), rand(2, 2, 3, 4, seed=2), rand(2, 1, 3, 3)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMULAS)
def test_an_operator_is_its_formula(name):
    call, formula, tensors = FORMULAS[name]
    expected = formula(*tensors)
    close(call(*tensors), expected, rtol=1e-9, atol=1e-9)
    result = call(*(tensor.float().npu() for tensor in tensors))
    expected = tuple(one.float() for one in expected) if isinstance(expected, tuple) else expected.float()
    close(result, expected)
    assert all(one.device.type == "npu" for one in (result if isinstance(result, tuple) else (result,)))


@pytest.mark.parametrize("name", FORMULAS)
def test_its_gradient_is_that_of_the_formula(name):
    call, _, tensors = FORMULAS[name]
    assert gradcheck(call, [tensor.clone().requires_grad_() for tensor in tensors], fast_mode=True)


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_routing_of_tokens_to_experts(device):
    x = rand(5, 6).float().to(device)
    y, expert, row = torch_npu.npu_moe_gating_top_k_softmax(x, None, 2)
    best = x.cpu().softmax(-1).topk(2)
    close(y.cpu(), best.values)
    assert torch.equal(expert.cpu().long(), best.indices) and torch.equal(
        row.cpu(), torch.arange(10, dtype=torch.int32).view(2, 5).t()
    )
    tokens = rand(5, 4).float().to(device)
    rows, place, experts = torch_npu.npu_moe_init_routing(tokens, row, expert, 5)
    counts = torch_npu.npu_moe_compute_expert_tokens(experts, 6)
    assert counts.tolist() == [sum(e <= i for e in expert.flatten().tolist()) for i in range(6)]
    made = torch.stack(
        [tokens.cpu()[i] * (e + 1) for e, i in sorted((e, i) for i, pair in enumerate(expert.tolist()) for e in pair)]
    )
    assert torch.equal(rows.cpu() * (experts.cpu().unsqueeze(1) + 1), made)
    out = torch_npu.npu_moe_finalize_routing(made.to(device), None, None, None, y, place, expert)
    factor = (best.values * (best.indices + 1)).sum(1, keepdim=True)
    close(out.cpu(), tokens.cpu() * factor)
    skip, bias = rand(5, 4, seed=1).float().to(device), rand(6, 4).float().to(device)
    more = torch_npu.npu_moe_finalize_routing(made.to(device), skip, skip, bias, y, place, expert)
    added = 2 * skip.cpu() + (best.values.unsqueeze(-1) * bias.cpu()[best.indices]).sum(1)
    close(more.cpu(), out.cpu() + added)
    again, place, count, scales = torch_npu.npu_moe_init_routing_v2(
        tokens, expert, expert_num=6, expert_tokens_num_type=1, expert_tokens_num_flag=True
    )
    assert count.tolist() == expert.flatten().cpu().bincount(minlength=6).tolist() and scales.tolist() == [0] * 10
    assert torch.equal(again[place.long()].view(5, 2, 4)[:, 0], tokens)
    flat, where = torch_npu.npu_moe_token_permute(tokens, expert)
    close(torch_npu.npu_moe_token_unpermute(flat, where, y).cpu(), tokens.cpu() * y.cpu().sum(1, keepdim=True))


def test_routing_within_groups_of_experts():
    x, bias = rand(4, 8).float(), rand(8).float()
    y, expert, norm = torch_npu.npu_moe_gating_top_k(
        x.npu(), 2, bias=bias.npu(), k_group=1, group_count=2, group_select_mode=1, norm_type=1, out_flag=True
    )
    sigmoid = x.sigmoid()
    for i in range(4):
        choice = (sigmoid[i] + bias).view(2, 4)
        group = choice.topk(2).values.sum(1).argmax().item()
        chosen = choice[group].topk(2).indices + 4 * group
        assert expert[i].tolist() == chosen.tolist()
        torch.testing.assert_close(y[i].cpu(), sigmoid[i, chosen] / sigmoid[i, chosen].sum())
    close(norm.cpu(), sigmoid)


@pytest.mark.parametrize("norm_type", [0, 1])
def test_the_gradient_of_routing_by_name(norm_type):
    x, bias, grad = rand(4, 8).requires_grad_(), rand(8), rand(4, 3, seed=2).float()
    y, expert, norm = torch_npu.npu_moe_gating_top_k(
        x, 3, bias=bias, norm_type=norm_type, out_flag=True, routed_scaling_factor=1.5
    )
    y.backward(grad)
    own = torch_npu.npu_moe_gating_top_k_backward(
        norm.detach().npu(), grad.npu(), expert.npu(), norm_type=norm_type, routed_scaling_factor=1.5
    )
    close(own.cpu(), x.grad.float())


@pytest.mark.parametrize("mode", [0, 1])
def test_experts_are_found_where_they_are_placed(mode):
    table = torch.tensor([[1, 5, 0, 0], [3, 2, 7, 4], [2, 1, 6, 0]], dtype=torch.int32)
    ids = torch.tensor([[0, 1], [2, 1], [1, 2], [1, 0]], dtype=torch.int32)
    scales, threshold = torch.tensor([[0.5, 0.1], [0.3, 0.3], [0.9, 0.2], [0.4, 0.1]]), torch.tensor([0.4, 0.25])
    active = torch.tensor([True, True, True, False])
    found, mask = torch_npu.npu_moe_update_expert(
        ids.npu(), table.npu(), expert_scales=scales.npu(), pruning_threshold=threshold.npu(), active_mask=active.npu(),
        local_rank_id=5, world_size=8, balance_mode=mode,
    )  # fmt: skip
    for i, row in enumerate(ids.tolist()):
        for j, expert in enumerate(row):
            count, *places = table[expert].tolist()
            share = -(-8 // count)
            assert found[i, j] == places[5 // share if mode == 0 else i % count]
            assert mask[i, j] == (active[i] and scales[i, j] >= threshold[j] * scales[i].sum())
    assert found.dtype == torch.int32 and mask.dtype == torch.bool
    assert torch_npu.npu_moe_update_expert(ids, table, balance_mode=1)[1].all()
    with pytest.raises(ValueError, match="balance_mode 0 needs local_rank_id below world_size, not -1 and -1"):
        torch_npu.npu_moe_update_expert(ids, table)


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_tokens_of_all_ranks_are_put_expert_by_expert(device):
    counts = torch.tensor([[2, 0, 1], [1, 3, 0]], dtype=torch.int32)
    tokens, scales = rand(7, 4).half(), rand(7).float()
    order = [0, 1, 3, 4, 5, 6, 2]
    rows, own, index, count = torch_npu.npu_moe_re_routing(
        tokens.to(device), counts.to(device), per_token_scales=scales.to(device)
    )
    assert index.tolist() == order and index.dtype == torch.int32 and count.tolist() == [3, 3, 1]
    close((rows, own), (tokens[order], scales[order]))


@pytest.mark.parametrize("kind", [0, 1])
def test_products_of_groups_are_added_up_where_they_came_from(kind):
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(-8, 8, (5, 6), generator=generator, dtype=torch.int8)
    w = torch.randint(-8, 8, (2, 6, 4), generator=generator, dtype=torch.int8)
    scale, token, logit, shared = rand(2, 4).float(), rand(5).abs().float(), rand(5, seed=1).float(), rand(2, 4).bfloat16()
    rows, groups = torch.tensor([2, 0, 2, 1]), torch.tensor([3, 4] if kind == 0 else [3, 1])
    out = torch_npu.npu_grouped_matmul_finalize_routing(
        x.npu(), w.npu(), groups.npu(), scale=scale.npu(), pertoken_scale=token.npu(), shared_input=shared.npu(),
        logit=logit.npu(), row_index=torch.cat((rows, rows[:1])).npu(), shared_input_weight=0.5, shared_input_offset=1,
        output_bs=3, group_list_type=kind,
    )  # fmt: skip
    expected = torch.zeros(3, 4)
    for i in range(4):
        group = 0 if i < 3 else 1
        expected[rows[i]] += (x[i].long() @ w[group].long()).float() * scale[group] * token[i] * logit[i]
    expected[1:] += 0.5 * shared.float()
    close(out.cpu(), expected)
    with pytest.raises(ValueError, match=r"w has 2 groups, and x 5 rows, but the groups end at \[9, 9\]"):
        torch_npu.npu_grouped_matmul_finalize_routing(
            x, w, torch.tensor([9, 0]), scale=scale, row_index=torch.arange(5), pertoken_scale=token
        )


def test_the_gradients_of_hyper_connections_by_name():
    tensors = [
        rand(2, 3, 4).requires_grad_(),
        rand(2, 3, 3).requires_grad_(),
        rand(2, 4).requires_grad_(),
        rand(2, 3).requires_grad_(),
    ]
    grad = rand(2, 3, 4, seed=5)
    torch_npu.npu_mhc_post(*tensors).backward(grad)
    own = torch_npu.npu_mhc_post_backward(grad.npu(), *(t.detach().npu() for t in tensors))
    close(tuple(own), tuple(t.grad for t in tensors))
    x, _, out, post = (t.detach() for t in tensors)
    plain = torch_npu.npu_mhc_post_backward(grad, x, None, out, post)
    close(plain[0], grad.double())
    assert plain[1].numel() == 0


def test_results_are_put_into_tensors_that_are_given():
    x = rand(3, 4).float().npu()
    for call, arguments in (
        (torch_npu.npu_reshape, ([4, 3],)),
        (torch_npu.npu_sort_v2, (1,)),
        (torch_npu.npu_indexing, ([0, 1], [3, 3], [1, 1])),
        (torch_npu.npu_slice, ([1, 0], [2, 4])),
        (torch_npu.npu_transpose, ((1, 0),)),
    ):
        expected = call(x, *arguments)
        out, empty = torch.zeros_like(expected), expected.new_empty(0)
        assert call(x, *arguments, out=out) is out and torch.equal(out, expected)
        assert torch.equal(call(x, *arguments, out=empty), expected)
    row = rand(1, 4).float().npu()
    out = torch.zeros(3, 4, device="npu")
    assert torch.equal(torch_npu.npu_broadcast(row, [3, 4], out=out), row.expand(3, 4))
    with pytest.raises(ValueError, match=r"npu_broadcast: what is filled is \[3, 4\], not \[2, 2\]"):
        torch_npu.npu_broadcast(row, [3, 4], out=out[:2, :2])
    image, weight = rand(1, 2, 5, 5).float().npu(), rand(3, 2, 3, 3).float().npu()
    out = torch.zeros(1, 3, 5, 5, device="npu")
    torch_npu.npu_conv2d(image, weight, None, [1, 1], [1, 1], [1, 1], 1, out=out)
    close(out.cpu(), F.conv2d(image.cpu(), weight.cpu(), padding=1))


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_recurrent_layers(device):
    x, h, c = rand(4, 3, 5).float(), rand(1, 3, 6).float(), rand(1, 3, 6, seed=1).float()
    w_ih, w_hh, bias = rand(24, 5).float(), rand(24, 6).float(), rand(24).float()
    expected = torch._VF.lstm(x, (h, c), (w_ih, w_hh, bias, torch.zeros(24)), True, 1, 0.0, True, False, False)[0]
    weight = torch.cat((w_ih.t(), w_hh.t()))
    given = [t.to(device) for t in (x, weight, bias, torch.empty(0), h, c)]
    results = torch_npu.npu_lstm(*given, True, 1, 0.0, True, False, False, False, False)
    close(results[0], expected)
    assert len(results) == 8 and all(r.shape == (4, 3, 6) for r in results)
    back = torch_npu.npu_lstm(given[0].flip(0), *given[1:], True, 1, 0.0, True, False, False, False, True)
    close(back[0].flip(0), expected)
    cell = torch_npu.npu_lstm_cell(given[0][0], w_ih.t().to(device), w_hh.t().to(device), given[4][0], given[5][0], given[2])
    close(cell[1], expected[0])
    g_ih, g_hh, b_ih, b_hh = rand(18, 5).float(), rand(18, 6).float(), rand(18).float(), rand(18, seed=1).float()
    expected = torch._VF.gru(x, h, (g_ih, g_hh, b_ih, b_hh), True, 1, 0.0, True, False, False)[0]
    given = [t.to(device) for t in (x, h, g_ih.t(), g_hh.t(), b_ih, b_hh, torch.empty(0))]
    close(torch_npu.npu_gru(*given, True, 1, 0.0, True, False, False)[0], expected)


def test_losses():
    x, target, weight = rand(6, 5).requires_grad_(), torch.tensor([0, 1, 4, -100, 2, 2]), rand(5).abs()
    for reduction in ("mean", "sum", "none"):
        options = {"reduction": reduction, "label_smoothing": 0.1}
        loss, log, _, _ = torch_npu.npu_cross_entropy_loss(x, target, weight, **options)
        expected = F.cross_entropy(x, target, weight, **options)
        torch.testing.assert_close(loss, expected if reduction == "none" else expected.view(1))
        torch.testing.assert_close(log, x.log_softmax(-1))
    hot = torch_npu.npu_one_hot(torch.tensor([5, 3, 1], dtype=torch.int32, device="npu"), -1, 5, 0.9, 0.1)
    close(hot.cpu(), torch.tensor([[0.1] * 5, [0.1, 0.1, 0.1, 0.9, 0.1], [0.1, 0.9, 0.1, 0.1, 0.1]]))


def test_signs_are_packed_as_bits():
    x = torch.tensor([1.0, -2, 0, 3, -1, -1, 5, -0.5, 2], device="npu")
    packed = torch_npu.npu_sign_bits_pack(x, 1)
    assert packed.tolist() == [[0b01001101, 0b1]] and packed.dtype == torch.uint8
    signs = torch_npu.npu_sign_bits_unpack(packed[0], 2, torch.float16)
    assert signs.shape == (2, 8) and signs.dtype == torch.float16
    assert signs.flatten()[:9].tolist() == [1, -1, 1, 1, -1, -1, 1, -1, 1]


def test_writing_in_place():
    x = torch.zeros(2, 4, 3, device="npu")
    updates = rand(2, 2, 3).float().npu()
    torch_npu.scatter_update_(x, torch.tensor([1, 2], device="npu"), updates, 1)
    expected = torch.zeros(2, 4, 3)
    expected[0, 1:3], expected[1, 2:4] = updates[0].cpu(), updates[1].cpu()
    close(x, expected)
    torch_npu.npu_scatter_nd_update_(x, torch.tensor([[0, 0]], device="npu"), torch.ones(1, 3, device="npu"))
    assert x[0, 0].tolist() == [1, 1, 1]
    out = torch.empty(0, device="npu")
    assert torch_npu.npu_transpose(x, (2, 0, 1), out=out) is out and out.shape == (3, 2, 4)


def test_choosing_words():
    logits = torch.tensor([[1.0, 4, 2, 3], [0, 0, 5, 0]], device="npu")
    out = torch_npu.npu_top_k_top_p(logits, torch.tensor([1.0, 0.5], device="npu"), torch.tensor([2, 4], device="npu"))
    inf = float("-inf")
    assert out.tolist() == [[inf, 4, inf, 3], [inf, inf, 5, inf]]
    places, found = torch_npu.npu_random_choice_with_mask(torch.tensor([[True, False], [True, True]], device="npu"), 4)
    assert sorted(map(tuple, places[found].tolist())) == [(0, 0), (1, 0), (1, 1)] and found.tolist() == [True] * 3 + [False]


def test_a_checksum_finds_a_wrong_product():
    a, b = rand(20, 30).float().npu(), rand(30, 40).float().npu()
    c = a @ b
    assert not torch_npu.matmul_checksum(a, b, c).item()
    c[3, 4] += 0.5
    assert torch_npu.matmul_checksum(a, b, c).item()
    c[3, 4] = float("nan")
    assert torch_npu.matmul_checksum(a, b, c).item()


# Name -> (the gradient by its name, what it is the gradient of, the tensors).
GRADIENTS = {
    "rms_norm": (
        lambda g, x, w: torch_npu.npu_rms_norm_backward(g, x, w, torch_npu.npu_rms_norm(x, w)[1]),
        lambda x, w: torch_npu.npu_rms_norm(x, w)[0],
        (rand(3, 4, 6), rand(6)),
    ),
    "rms_norm over two dimensions": (
        lambda g, x, w: torch_npu.npu_rms_norm_backward(g, x, w, torch_npu.npu_rms_norm(x, w)[1]),
        lambda x, w: torch_npu.npu_rms_norm(x, w)[0],
        (rand(3, 4, 6), rand(4, 6)),
    ),
    "swiglu": (torch_npu.npu_swiglu_backward, torch_npu.npu_swiglu, (rand(3, 6),)),
    "fast_gelu": (torch_npu.npu_fast_gelu_backward, torch_npu.npu_fast_gelu, (rand(3, 6),)),
    "gelu": (torch_npu.npu_gelu_backward, torch_npu.npu_gelu, (rand(3, 6),)),
    "geglu": (
        lambda g, x: torch_npu.npu_geglu_grad(g, x, torch_npu.npu_geglu(x)[1]),
        lambda x: torch_npu.npu_geglu(x)[0],
        (rand(3, 6),),
    ),
    "rotary_mul": (
        torch_npu.npu_rotary_mul_backward,
        torch_npu.npu_rotary_mul,
        (rand(2, 3, 6), rand(1, 3, 6), rand(1, 3, 6, seed=1)),
    ),
    "linear": (torch_npu.npu_linear_backward, torch_npu.npu_linear, (rand(2, 3, 4), rand(5, 4))),
    "scaled_masked_softmax": (
        lambda g, x: torch_npu.npu_scaled_masked_softmax_backward(
            g, torch_npu.npu_scaled_masked_softmax(x, MASK.to(x.device), 0.5), MASK.to(x.device), 0.5, False
        ),
        lambda x: torch_npu.npu_scaled_masked_softmax(x, MASK.to(x.device), 0.5),
        (rand(2, 6, 6),),
    ),
}


@pytest.mark.parametrize("device", ["cpu", "npu"])
@pytest.mark.parametrize("name", GRADIENTS)
def test_a_gradient_by_name_is_that_of_autograd(name, device):
    gradient, forward, tensors = GRADIENTS[name]
    own = [tensor.to(device).requires_grad_() for tensor in tensors]
    out = forward(*own)
    grad = rand(*out.shape, seed=9).to(device)
    expected = torch.autograd.grad(out, own, grad)
    result = gradient(grad, *(tensor.detach() for tensor in own))
    result = result if isinstance(result, tuple) else (result,)
    close(result, tuple(one.cpu() for one in expected), rtol=1e-9, atol=1e-9)


QKV = [rand(2, 4, 6, 8), rand(2, 4, 6, 8, seed=1), rand(2, 4, 6, 8, seed=2)]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_keeps_its_type_and_is_computed_precisely(dtype):
    x, gamma = rand(4, 64).to(dtype), rand(64).to(dtype)
    y, rstd = torch_npu.npu_rms_norm(x.npu(), gamma.npu())
    assert y.dtype == dtype and rstd.dtype == torch.float32
    close(y.cpu(), F.rms_norm(x.float(), (64,), gamma.float(), 1e-6).to(dtype), rtol=1e-2, atol=1e-3)
    half = [t.to(dtype).npu() for t in QKV]
    out = torch_npu.npu_fusion_attention(*half, 4, "BNSD", scale=0.3)[0]
    assert out.dtype == dtype
    close(out.cpu().float(), F.scaled_dot_product_attention(*(t.cpu().float() for t in half), scale=0.3), rtol=2e-2, atol=1e-2)


WRONG = {
    "rms_norm": (lambda: torch_npu.npu_rms_norm(rand(3, 4), rand(3)), "gamma has the shape [3]"),
    "geglu": (lambda: torch_npu.npu_geglu(rand(3, 5)), "cannot be halved"),
    "rotary_mul": (lambda: torch_npu.npu_rotary_mul(rand(2, 4), rand(4), rand(4), "quarter"), "half or interleave, not quarter"),
    "layout": (lambda: torch_npu.npu_fusion_attention(*QKV, 4, "NBSD"), "the layout is BSH, SBH, BSND, BNSD or TND, not NBSD"),
    "heads": (lambda: torch_npu.npu_fusion_attention(*QKV, 3, "BNSD"), "head_num is 3, but query has 4 heads"),
    "sparse_mode": (lambda: torch_npu.npu_fusion_attention(*QKV, 4, "BNSD", sparse_mode=9), "sparse_mode is 0 to 6, not 9"),
    "keep_prob": (lambda: torch_npu.npu_fusion_attention(*QKV, 4, "BNSD", keep_prob=0.0), "keep_prob is more than 0"),
    "packed": (lambda: torch_npu.npu_fusion_attention(*[rand(4, 2, 8)] * 3, 2, "TND"), "needs actual_seq_qlen"),
    "giou": (lambda: torch_npu.npu_giou(rand(5, 4), rand(5, 4)), "transpose it"),
    "nms": (lambda: torch_npu.npu_nms_with_mask(rand(5, 4), 0.5), "[n, 5] or wider"),
    "mask": (lambda: torch_npu.npu_scaled_masked_softmax(rand(2, 3), rand(2, 3)), "write mask.bool()"),
    "slice": (lambda: torch_npu.npu_slice(rand(3, 4), [2, 0], [2, 4]), "not inside of dimension 0"),
    "group_list": (lambda: torch_npu.npu_grouped_matmul([rand(3, 4)], [rand(2, 4, 5)]), "needs a group_list of 2"),
    "grouped": (lambda: torch_npu.npu_grouped_matmul([rand(3, 4)], [rand(2, 4, 5)], group_list=[2, 9]), "but x has 3 rows"),
    "experts": (lambda: torch_npu.npu_moe_gating_top_k_softmax(rand(2, 3), None, 4), "k is 1 to 3"),
    "scales": (lambda: torch_npu.npu_quantize(rand(3, 4), rand(5), None, torch.qint8, 1), "scales are one or 4"),
    "quant_matmul": (lambda: torch_npu.npu_quant_matmul(rand(2, 3), rand(3, 4), rand(4)), "both int8 or int32"),
    "dtype": (lambda: torch_npu.npu_dynamic_quant(rand(2, 3), dst_type=torch.float32), "dst_type is int8"),
    "lstm": (
        lambda: torch_npu.npu_lstm(*[rand(2, 2, 2)] * 6, True, 2, 0.0, True, False, False, False, False),
        "torch.nn.LSTM has more",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments_are_told_in_words(name):
    call, message = WRONG[name]
    with pytest.raises(ValueError, match=re.escape(message)):
        call()


def test_wrong_calls_are_told_in_words():
    with pytest.raises(TypeError, match="takes a tensor for the argument 'query', not None"):
        torch_npu.npu_fusion_attention(None, None, None, 1, "BSND")
    with pytest.raises(TypeError, match="multiple values for argument 'approximate'"):
        torch_npu.npu_gelu(rand(2), "none", approximate="tanh")
    with pytest.raises(TypeError, match="takes 3 arguments, but 4 were given"):
        torch_npu.npu_linear(rand(2, 2), rand(2, 2), rand(2), rand(2))
    with pytest.raises(RuntimeError, match="weight"):
        torch_npu.npu_linear(rand(2, 2))
    with pytest.raises(NotImplementedError, match="does not offer the argument padding_mask; leave it out"):
        torch_npu.npu_fusion_attention(*QKV, 4, "BNSD", padding_mask=rand(1))
    with pytest.raises(NotImplementedError, match=r"npu_mm_all_reduce_base is not offered.*HCCL"):
        torch_npu.npu_mm_all_reduce_base(*[None] * 14)
    with pytest.raises(NotImplementedError, match=r"npu_alltoallv_gmm is not offered.*HCCL"):
        torch_npu.npu_alltoallv_gmm(rand(2, 2), rand(1, 2, 2), "group", 2, [1], [1])
    with pytest.raises(NotImplementedError, match=r"npu_all_gather_base_mm is not offered.*HCCL"):
        torch.ops.npu.npu_all_gather_base_mm(rand(2, 2), rand(2, 2), "group", 2)
    with pytest.raises(ValueError, match="npu_mhc_sinkhorn: num_iters is 1 to 100, not 0"):
        torch_npu.npu_mhc_sinkhorn(rand(2, 4, 4), num_iters=0)
    with pytest.raises(AttributeError, match="npu_no_such_operator"):
        _ = torch_npu.npu_no_such_operator
    with pytest.raises(AttributeError, match="npu_no_such_operator"):
        _ = torch.ops.npu.npu_no_such_operator


def test_the_table_of_families_names_what_they_define():
    for name in ops.FAMILY_OF:
        assert callable(getattr(torch_npu, name)), name
    assert set(PUBLIC) == set(ops.FAMILY_OF)
    assert "npu_rms_norm" in dir(torch.ops.npu)
    for name, function in PUBLIC.items():
        assert inspect.getdoc(function), name


def test_the_document_lists_them():
    document = (Path(__file__).parents[1] / "docs/npu_ops.md").read_text()
    rows = [f"| {family} | {' '.join(f'`{name}`' for name in names.split())} |" for family, names in ops.FAMILIES.items()]
    assert re.findall(r"^\| (?!family)[a-z].*$", document, re.M) == rows


def test_an_operator_is_called_by_the_names_of_either_signature():
    x, w = rand(3, 4), rand(5, 4)
    assert torch.equal(torch_npu.npu_linear(input=x, weight=w), torch_npu.npu_linear(input_=x, weight=w))
    assert torch.equal(torch_npu.npu_gelu(x, "tanh"), torch.ops.npu.npu_gelu(x, approximate="tanh"))
    q, k, v = QKV
    plain = torch_npu.npu_prompt_flash_attention(q, k, v, num_heads=4, input_layout="BNSD", num_key_value_heads=4)
    listed = torch_npu.npu_prompt_flash_attention(None, q, k, v, None, None, None, None, 4, 1.0, 2147483647, 0, "BNSD", 4)
    assert torch.equal(plain, listed)


def test_no_family_is_imported_before_it_is_asked_for(python):
    done = python(
        """
        import sys, torch_npu
        print("npu_rms_norm" in dir(torch_npu), [name for name in sys.modules if name.startswith("torch_npu.ops.")])
        """
    )
    assert done.stdout == "True []\n", done.stderr


OPCHECKED = {
    "npu_rms_norm": (rand(3, 4), rand(4)),
    "npu_swiglu": (rand(3, 4),),
    "npu_rotary_mul": (rand(2, 4), rand(4), rand(4)),
    "npu_moe_token_permute": (rand(3, 4), torch.tensor([2, 0, 1])),
    "npu_dynamic_quant": (rand(3, 4),),
    "npu_dynamic_block_quant": (rand(3, 4),),
    "npu_mhc_post": (rand(2, 3, 4), rand(2, 3, 3), rand(2, 4), rand(2, 3)),
    "npu_lightning_indexer": (rand(2, 3, 4, 8), rand(2, 5, 1, 8), rand(2, 3, 4)),
    "npu_add_rms_norm_v2": (rand(3, 4), rand(3, 4, seed=1), rand(4)),
}


@pytest.mark.parametrize("name", OPCHECKED)
def test_registration_is_sound(name):
    tensors = [tensor.float() if tensor.is_floating_point() else tensor for tensor in OPCHECKED[name]]
    arguments = tuple(tensor.detach().npu() for tensor in tensors)
    arguments[0].requires_grad_(name in ("npu_rms_norm", "npu_swiglu"))
    torch.library.opcheck(getattr(torch.ops.npu, name).default, arguments, test_utils=("test_schema", "test_faketensor"))


def test_shapes_are_known_without_values():
    x = torch.empty(2, 6, 8, 16, device="meta")
    assert torch_npu.npu_fusion_attention(x, x, x, 8, "BSND")[0].shape == x.shape
    assert torch_npu.npu_swiglu(x).shape == (2, 6, 8, 8)
    assert torch_npu.npu_nms_v4(x[0, 0, :, :4], x[0, 0, :, 0], 5, x[0, 0, 0, 0], x[0, 0, 0, 0])[0].shape == (5,)


def test_torch_compile_sees_through_an_operator():
    def network(x, gamma):
        return torch_npu.npu_swiglu(torch_npu.npu_rms_norm(x, gamma)[0])

    x, gamma = rand(3, 8).float().npu(), rand(8).float().npu()
    compiled = torch.compile(network, backend="aot_eager", fullgraph=True)
    close(compiled(x, gamma).cpu(), network(x.cpu(), gamma.cpu()))
