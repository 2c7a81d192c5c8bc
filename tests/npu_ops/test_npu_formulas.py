"""Operators of the namespace npu and their gradients equal formulas in plain PyTorch, on CPU and npu."""

import pytest
import torch
import torch.nn.functional as F
import torch_npu
from torch.autograd import gradcheck

from tests.compare import assert_close
from tests.support import rand


def rotate_half(x):
    half = x.size(-1) // 2
    return torch.cat((-x[..., half:], x[..., :half]), -1)


def layer_norm(x, gamma, beta):
    return F.layer_norm(x, gamma.shape, gamma, beta, 1e-5)


def giou(a, b):
    """GIoU of boxes (x, y, w, h), [4, n], one by one."""
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
    """Sinkhorn normalisation: columns three times, rows twice."""
    y = x.softmax(-1) + 1e-3
    for dim in (-2, -1, -2, -1, -2):
        y = y / (y.sum(dim, keepdim=True) + 1e-3)
    return y


def mixing(x, phi, alpha, bias, gamma):
    """npu_mhc_pre of three streams of width four, one weight after the other."""
    flat = x.flatten(1)
    inv_rms = 1 / torch.sqrt((flat * flat).mean(1) + 1e-6)
    mix = torch.stack([(flat * gamma.flatten() * row).sum(1) for row in phi], 1)
    h = mix * inv_rms.unsqueeze(1)
    pre = torch.sigmoid(alpha[0] * h[:, :3] + bias[:3]) + 1e-6
    post = 2 / (1 + torch.exp(-(alpha[1] * h[:, 3:6] + bias[3:6])))
    res = (alpha[2] * h[:, 6:] + bias[6:]).view(-1, 3, 3)
    return torch.einsum("tn,tnd->td", pre, x), post, res, inv_rms, mix, pre


MASK = torch.ones(6, 6, dtype=torch.bool).triu(1)


# Name -> (call, formula, tensors). All are differentiable.
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
def test_an_operator_equals_its_formula(name):
    call, formula, tensors = FORMULAS[name]
    expected = formula(*tensors)
    assert_close(call(*tensors), expected, rtol=1e-9, atol=1e-9)
    result = call(*(tensor.float().npu() for tensor in tensors))
    expected = tuple(one.float() for one in expected) if isinstance(expected, tuple) else expected.float()
    assert_close(result, expected)
    assert all(one.device.type == "npu" for one in (result if isinstance(result, tuple) else (result,)))


@pytest.mark.parametrize("name", FORMULAS)
def test_the_gradient_passes_gradcheck(name):
    call, _, tensors = FORMULAS[name]
    assert gradcheck(call, [tensor.clone().requires_grad_() for tensor in tensors], fast_mode=True)


def test_backward_operators_of_hyper_connections():
    tensors = [
        rand(2, 3, 4).requires_grad_(),
        rand(2, 3, 3).requires_grad_(),
        rand(2, 4).requires_grad_(),
        rand(2, 3).requires_grad_(),
    ]
    grad = rand(2, 3, 4, seed=5)
    torch_npu.npu_mhc_post(*tensors).backward(grad)
    own = torch_npu.npu_mhc_post_backward(grad.npu(), *(t.detach().npu() for t in tensors))
    assert_close(tuple(own), tuple(t.grad for t in tensors))
    x, _, out, post = (t.detach() for t in tensors)
    plain = torch_npu.npu_mhc_post_backward(grad, x, None, out, post)
    assert_close(plain[0], grad.double())
    assert plain[1].numel() == 0


# Name -> (backward operator, forward operator, tensors).
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
def test_a_backward_operator_equals_autograd(name, device):
    gradient, forward, tensors = GRADIENTS[name]
    own = [tensor.to(device).requires_grad_() for tensor in tensors]
    out = forward(*own)
    grad = rand(*out.shape, seed=9).to(device)
    expected = torch.autograd.grad(out, own, grad)
    result = gradient(grad, *(tensor.detach() for tensor in own))
    result = result if isinstance(result, tuple) else (result,)
    assert_close(result, tuple(one.cpu() for one in expected), rtol=1e-9, atol=1e-9)
