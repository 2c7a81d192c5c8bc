"""Manifold-constrained hyper-connections: n residual streams [..., n, D] that are mixed before and after a layer."""

import torch

from ._define import check, op, precise, precisely


@op(
    "npu_mhc_pre(Tensor x, Tensor phi, Tensor alpha, Tensor bias, *, Tensor? gamma=None, float norm_eps=1e-6,"
    " float hc_eps=1e-6, int out_flag=0, int inner_precise=0) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)"
)
@precisely
def npu_mhc_pre(x, phi, alpha, bias, *, gamma=None, norm_eps=1e-6, hc_eps=1e-6, out_flag=0, inner_precise=0):
    """(h_in, h_post, h_res, inv_rms, h_mix, h_pre) of x [..., n, D]: with mix = rms_norm(x over n D, gamma) phi^T, and rows of
    phi [n + n + n n, n D] for each, h_pre = sigmoid(alpha mix + bias) + hc_eps, h_post = 2 sigmoid(alpha mix + bias), h_res
    [..., n, n] = alpha mix + bias, and h_in = the sum over n of h_pre x. Two alphas mean no h_res, which is one zero."""
    name = "npu_mhc_pre"
    streams, width = x.shape[-2:]
    rows = 2 * streams + (streams**2 if alpha.numel() == 3 else 0)
    check(alpha.numel() in (2, 3), name, f"alpha has 3 elements, or 2 for no h_res, not {alpha.numel()}")
    check(tuple(phi.shape) == (rows, streams * width), name, f"phi is [{rows}, {streams * width}], not {list(phi.shape)}")
    check(inner_precise in (0, 1), name, f"inner_precise is 0 or 1, not {inner_precise}")
    check(bias.numel() == rows, name, f"bias has {rows} elements, as phi has rows, not {bias.numel()}")
    flat = precise(x).flatten(-2)
    inv_rms = (flat.square().mean(-1) + norm_eps).rsqrt()
    mix = (flat if gamma is None else flat * gamma.flatten()) @ phi.t()
    alphas = torch.cat([one.expand(n) for one, n in zip(alpha.flatten(), (streams, streams, streams**2), strict=False)])
    h = mix * inv_rms.unsqueeze(-1) * alphas + bias
    h_pre = h[..., :streams].sigmoid() + hc_eps
    h_post = 2 * h[..., streams : 2 * streams].sigmoid()
    h_res = h[..., 2 * streams :].unflatten(-1, (streams, streams)) if alpha.numel() == 3 else h.new_zeros(1)
    h_in = (h_pre.unsqueeze(-1) * precise(x)).sum(-2).to(x.dtype)
    return h_in, h_post, h_res, inv_rms, mix, h_pre


@op("npu_mhc_post(Tensor x, Tensor? h_res, Tensor h_out, Tensor h_post) -> Tensor")
@precisely
def npu_mhc_post(x, h_res, h_out, h_post):
    """[..., n, D]: stream j is the sum over i of h_res[i, j] x[i], or x[j] without h_res, plus h_post[j] h_out."""
    name = "npu_mhc_post"
    streams = x.size(-2)
    check(h_post.shape == x.shape[:-1], name, f"h_post is {list(x.shape[:-1])}, as x without its last, not {list(h_post.shape)}")
    fits = h_out.shape == (*x.shape[:-2], x.size(-1))
    check(fits, name, f"h_out is {[*x.shape[:-2], x.size(-1)]}, as one stream of x, not {list(h_out.shape)}")
    fits = h_res is None or h_res.shape == (*x.shape[:-1], streams)
    check(fits, name, f"h_res is {[*x.shape[:-1], streams]}, not {list(x.shape if h_res is None else h_res.shape)}")
    kept = precise(x) if h_res is None else precise(h_res).transpose(-1, -2) @ precise(x)
    return (kept + precise(h_post).unsqueeze(-1) * precise(h_out).unsqueeze(-2)).to(x.dtype)


@op(
    "npu_mhc_post_backward(Tensor grad_y, Tensor x, Tensor? h_res, Tensor h_out, Tensor h_post)"
    " -> (Tensor, Tensor, Tensor, Tensor)"
)
@precisely
def npu_mhc_post_backward(grad_y, x, h_res, h_out, h_post):
    """The gradients of npu_mhc_post by x, h_res (empty without h_res), h_out and h_post."""
    grad = precise(grad_y)
    d_x = grad if h_res is None else precise(h_res) @ grad
    d_res = grad.new_empty(0) if h_res is None else precise(x) @ grad.transpose(-1, -2)
    d_out = (precise(h_post).unsqueeze(-1) * grad).sum(-2)
    d_post = (grad * precise(h_out).unsqueeze(-2)).sum(-1)
    return d_x.to(x.dtype), d_res if h_res is None else d_res.to(h_res.dtype), d_out.to(h_out.dtype), d_post.to(h_post.dtype)


@op("npu_mhc_sinkhorn(Tensor x, *, float eps=1e-6, SymInt num_iters=20, int out_flag=0) -> (Tensor, Tensor, Tensor)")
@precisely
def npu_mhc_sinkhorn(x, *, eps=1e-6, num_iters=20, out_flag=0):
    """(y, empty, empty): softmax(x) + eps, [..., n, n], with columns and rows divided in turn by their sums + eps, columns
    num_iters times, rows once less."""
    name = "npu_mhc_sinkhorn"
    check(x.dim() in (3, 4) and x.size(-1) == x.size(-2), name, f"x is [B, S, n, n] or [T, n, n], not {list(x.shape)}")
    check(1 <= num_iters <= 100, name, f"num_iters is 1 to 100, not {num_iters}")
    check(out_flag == 0, name, f"out_flag is 0, not {out_flag}; autograd needs no results from in between")
    y = x.softmax(-1) + eps
    y = y / (y.sum(-2, keepdim=True) + eps)
    for _ in range(num_iters - 1):
        y = y / (y.sum(-1, keepdim=True) + eps)
        y = y / (y.sum(-2, keepdim=True) + eps)
    return y, x.new_empty(0), x.new_empty(0)
