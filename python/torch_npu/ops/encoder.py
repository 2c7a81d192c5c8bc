"""Attention of encoders, with additive masks."""

import torch

from ._define import check, op
from .dropout import drop, masked

_SCORE = (
    "(Tensor query_layer, Tensor key_layer, Tensor value_layer, Tensor attention_mask, Scalar scale, float keep_prob,"
    " bool query_transpose=False, bool key_transpose=False, bool bmm_score_transpose_a=False, bool bmm_score_transpose_b=False,"
    " bool value_transpose=False, bool dx_transpose=False)"
)


@op("npu_fused_attention_score_fwd" + _SCORE + " -> (Tensor, Tensor, Tensor)")
def npu_fused_attention_score_fwd(
    query_layer,
    key_layer,
    value_layer,
    attention_mask,
    scale,
    keep_prob,
    query_transpose=False,
    key_transpose=False,
    bmm_score_transpose_a=False,
    bmm_score_transpose_b=False,
    value_transpose=False,
    dx_transpose=False,
):
    """(out, softmax, mask): softmax(scale q k^T + attention_mask), after dropout of 1 - keep_prob, times v. q, k and v are [B, N,
    S, D], out is [B * S, N * D]."""
    name = "npu_fused_attention_score"
    transposed = (query_transpose, key_transpose, bmm_score_transpose_a, bmm_score_transpose_b, value_transpose, dx_transpose)
    check(not any(transposed), name, "the transposing arguments are not offered; transpose the tensors")
    check(query_layer.dim() == 4, name, f"query_layer is [B, N, S, D], not {list(query_layer.shape)}")
    check(0 < keep_prob <= 1, name, f"keep_prob is more than 0 and at most 1, not {keep_prob}")
    softmax = (query_layer @ key_layer.transpose(-1, -2) * scale + attention_mask).softmax(-1)
    dropped, mask = drop(softmax, 1 - keep_prob, name)
    context = dropped @ value_layer
    return context.transpose(1, 2).flatten(2).flatten(0, 1), softmax, mask


@op("npu_fused_attention_score" + _SCORE + " -> Tensor")
def npu_fused_attention_score(*arguments):
    """[B * S, N * D]: softmax(scale q k^T + attention_mask), after dropout of 1 - keep_prob, times v [B, N, S, D]."""
    return npu_fused_attention_score_fwd(*arguments)[0]


@op(
    "npu_fused_attention_layernorm_qkv_fwd(Tensor x, Tensor kernel_query, Tensor kernel_key, Tensor kernel_value, Tensor gamma,"
    " Tensor beta, Tensor? bias_query=None, Tensor? bias_key=None, Tensor? bias_value=None, int seq_len=128, int num_heads=12,"
    " float eps=1e-05) -> Tensor[]"
)
def npu_fused_attention_layernorm_qkv_fwd(
    x,
    kernel_query,
    kernel_key,
    kernel_value,
    gamma,
    beta,
    bias_query=None,
    bias_key=None,
    bias_value=None,
    seq_len=128,
    num_heads=12,
    eps=1e-5,
):
    """[norm, query, key, value, mean, variance]: the layer norm of x [B * S, H], and its projections norm @ kernel + bias as
    [B, N, S, D]."""
    norm, mean, rstd = torch.native_layer_norm(x, gamma.shape, gamma, beta, eps)
    heads = lambda y: y.view(-1, seq_len, num_heads, y.size(1) // num_heads).transpose(1, 2)  # noqa: E731
    pairs = ((kernel_query, bias_query), (kernel_key, bias_key), (kernel_value, bias_value))
    layers = [heads(norm @ kernel if bias is None else torch.addmm(bias, norm, kernel)) for kernel, bias in pairs]
    return [norm, *layers, mean.flatten(), (rstd.square().reciprocal() - eps).flatten()]


@op(
    "npu_multi_head_attention(Tensor query, Tensor key, Tensor value, Tensor query_weight, Tensor key_weight, Tensor "
    "value_weight, Tensor attn_mask, Tensor out_proj_weight, Tensor? query_bias, Tensor? key_bias, Tensor? value_bias, "
    "Tensor? out_proj_bias, Tensor? dropout_mask, int attn_head_num, int attn_dim_per_head, int src_len, int tgt_len, "
    "float dropout_prob, bool softmax_use_float) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)"
)
def npu_multi_head_attention(
    query,
    key,
    value,
    query_weight,
    key_weight,
    value_weight,
    attn_mask,
    out_proj_weight,
    query_bias,
    key_bias,
    value_bias,
    out_proj_bias,
    dropout_mask,
    attn_head_num,
    attn_dim_per_head,
    src_len,
    tgt_len,
    dropout_prob,
    softmax_use_float,
):
    """(y, dropout_mask, query, key, value, scores, probabilities, context) of attention with its projections: query is
    [B * tgt_len, H], key and value are [B * src_len, H], attn_mask is added to the scores. A given dropout_mask, one byte per
    element of [B, N, tgt_len, src_len], replaces a new one."""
    name = "npu_multi_head_attention"
    heads, width = attn_head_num, attn_dim_per_head
    check(query.size(0) % tgt_len == 0, name, f"tgt_len {tgt_len} does not divide {query.size(0)} rows of query")
    check(key.size(0) % src_len == 0, name, f"src_len {src_len} does not divide {key.size(0)} rows of key")
    split = lambda x, length: x.view(-1, length, heads, width).transpose(1, 2)  # noqa: E731
    linear = torch.nn.functional.linear
    q = split(linear(query, query_weight, query_bias) * width**-0.5, tgt_len)
    k = split(linear(key, key_weight, key_bias), src_len)
    v = split(linear(value, value_weight, value_bias), src_len)
    scores = q @ k.transpose(-1, -2) + attn_mask
    softmax = scores.softmax(-1, dtype=torch.float32 if softmax_use_float and scores.dtype != torch.float64 else None)
    probabilities = softmax.to(scores.dtype)
    if dropout_mask is None or dropout_mask.numel() != probabilities.numel():
        dropped, dropout_mask = drop(probabilities, dropout_prob, name)
    else:
        dropped = masked(probabilities, dropout_mask, dropout_prob)
    context = (dropped @ v).transpose(1, 2).reshape(-1, heads * width)
    y = linear(context, out_proj_weight, out_proj_bias)
    return y, dropout_mask, q, k, v, softmax, dropped, context
