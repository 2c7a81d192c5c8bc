"""The prolog of multi-head latent attention: projections, norms and rotations of tokens, and the caches of keys.

A cache is pages [blocks, block, 1, D]; an index is the position of a token over all pages. The cache modes PA_NZ split the D of a
page's tokens into pieces of 32 bytes, [D / 16, block, 16] for half precision, as the chip's format FRACTAL_NZ does. Caches are
written in place and returned.
"""

import torch

from ._define import check, op, precisely, refuse
from .cache import write_pieces, write_tokens
from .norm import _rms_norm
from .quant import integer_matmul, rounded
from .rope import npu_interleave_rope

_PROLOG = (
    "(Tensor token_x, Tensor weight_dq, Tensor weight_uq_qr, Tensor weight_uk, Tensor weight_dkv_kr, Tensor rmsnorm_gamma_cq,"
    " Tensor rmsnorm_gamma_ckv, Tensor rope_sin, Tensor rope_cos, Tensor cache_index, Tensor kv_cache, Tensor kr_cache, *,"
    " Tensor? dequant_scale_x=None, Tensor? dequant_scale_w_dq=None, Tensor? dequant_scale_w_uq_qr=None,"
    " Tensor? dequant_scale_w_dkv_kr=None, Tensor? quant_scale_ckv=None, Tensor? quant_scale_ckr=None,"
    " Tensor? smooth_scales_cq=None, float rmsnorm_epsilon_cq=1e-05, float rmsnorm_epsilon_ckv=1e-05,"
    ' str cache_mode="PA_BSND") -> '
)


@op(f"npu_mla_prolog{_PROLOG}(Tensor, Tensor, Tensor, Tensor)")
def npu_mla_prolog(*tensors, dequant_scale_x=None, dequant_scale_w_dq=None, dequant_scale_w_dkv_kr=None, **options):
    """(query, query_rope, kv_cache, kr_cache) of tokens x [T, He] or [B, S, He]:

    c = rms_norm(x weight_dq); per head, c weight_uq_qr is D dimensions, which times weight_uk [N, D, Hckv] are query, and more,
    which are rotated as by npu_interleave_rope; x weight_dkv_kr is Hckv dimensions, whose rms_norm is written into kv_cache,
    and more, which are rotated and written into kr_cache. An int8 weight_uq_qr multiplies a dynamically quantised c
    (smooth_scales_cq) and needs dequant_scale_w_uq_qr; int8 caches need quant_scale_ckv and quant_scale_ckr."""
    name = "npu_mla_prolog"
    refuse(name, dequant_scale_x=dequant_scale_x, dequant_scale_w_dq=dequant_scale_w_dq)
    refuse(name, dequant_scale_w_dkv_kr=dequant_scale_w_dkv_kr)
    return _prolog(name, *tensors, **options)[:4]


@op(f"npu_mla_prolog_v2{_PROLOG}(Tensor, Tensor, Tensor, Tensor, Tensor)")
def npu_mla_prolog_v2(*tensors, **options):
    """npu_mla_prolog, and the scales of query; int8 tokens need dequant_scale_x, and int8 weights theirs. If then kv_cache is
    quantised too, by one quant_scale_ckv, query is int8 with a scale per token and head, float32 [T, N, 1], and query_rope is
    multiplied by quant_scale_ckv over it; else the scales are one zero."""
    return _prolog("npu_mla_prolog_v2", *tensors, **options)[:5]


_PROLOG_3 = (
    " *, Tensor? cache_index=None, Tensor? dequant_scale_x=None, Tensor? dequant_scale_w_dq=None,"
    " Tensor? dequant_scale_w_uq_qr=None, Tensor? dequant_scale_w_dkv_kr=None, Tensor? quant_scale_ckv=None,"
    " Tensor? quant_scale_ckr=None, Tensor? smooth_scales_cq=None, Tensor? actual_seq_len=None, Tensor? k_nope_clip_alpha=None,"
    ' float rmsnorm_epsilon_cq=1e-05, float rmsnorm_epsilon_ckv=1e-05, str cache_mode="PA_BSND", bool query_norm_flag=False,'
    " int weight_quant_mode=0, int kv_cache_quant_mode=0, int query_quant_mode=0, int ckvkr_repo_mode=0,"
    " int quant_scale_repo_mode=0, int tile_size=128, float qc_qr_scale=1.0, float kc_scale=1.0, int? token_x_dtype=None,"
    " int? weight_dq_dtype=None, int? weight_uq_qr_dtype=None, int? weight_dkv_kr_dtype=None, int? kv_cache_dtype=None) -> "
)
_TOKENS = (
    "(Tensor token_x, Tensor weight_dq, Tensor weight_uq_qr, Tensor weight_uk, Tensor weight_dkv_kr, Tensor rmsnorm_gamma_cq,"
    " Tensor rmsnorm_gamma_ckv, Tensor rope_sin, Tensor rope_cos,"
)


@op(f"npu_mla_prolog_v3{_TOKENS} Tensor(a!) kv_cache, Tensor(b!) kr_cache,{_PROLOG_3}(Tensor, Tensor, Tensor, Tensor, Tensor)")
def npu_mla_prolog_v3(
    *tensors,
    cache_index=None,
    actual_seq_len=None,
    k_nope_clip_alpha=None,
    weight_quant_mode=0,
    kv_cache_quant_mode=0,
    query_quant_mode=0,
    ckvkr_repo_mode=0,
    quant_scale_repo_mode=0,
    tile_size=128,
    token_x_dtype=None,
    weight_dq_dtype=None,
    weight_uq_qr_dtype=None,
    weight_dkv_kr_dtype=None,
    kv_cache_dtype=None,
    query_norm_flag=False,
    **options,
):
    """(query, query_rope, its scales, c, its scales): npu_mla_prolog_v2, which returns c with query_norm_flag, times qc_qr_scale,
    quantised if weight_uq_qr is; kc_scale multiplies what kv_cache gets. weight_quant_mode is 0, 1 for an int8 weight_uq_qr, or 2
    for int8 tokens and weights; kv_cache_quant_mode 0, 1 or 2 for one scale, or one per dimension; query_quant_mode 1 quantises
    query. The cache modes BSND and TND keep the tokens in their order, and have no index. Results that are not requested are
    empty."""
    name = "npu_mla_prolog_v3"
    refuse(name, actual_seq_len=actual_seq_len, k_nope_clip_alpha=k_nope_clip_alpha, kv_cache_dtype=kv_cache_dtype)
    refuse(name, token_x_dtype=token_x_dtype, weight_dq_dtype=weight_dq_dtype, weight_uq_qr_dtype=weight_uq_qr_dtype)
    refuse(name, weight_dkv_kr_dtype=weight_dkv_kr_dtype)
    check(weight_quant_mode in (0, 1, 2), name, f"weight_quant_mode is 0, 1 or 2, not {weight_quant_mode}")
    check(kv_cache_quant_mode in (0, 1, 2), name, f"kv_cache_quant_mode is 0, 1 or 2, not {kv_cache_quant_mode}")
    check(ckvkr_repo_mode == quant_scale_repo_mode == 0, name, "ckvkr_repo_mode and quant_scale_repo_mode are 0")
    *tensors, kv_cache, kr_cache = tensors
    mode = int(tensors[2].dtype == torch.int8) + int(tensors[0].dtype == torch.int8)
    check(mode == weight_quant_mode, name, f"weight_quant_mode is {weight_quant_mode}, but tokens and weights are of mode {mode}")
    query, rope, _, _, scales, norm, norm_scales = _prolog(
        name, *tensors, cache_index, kv_cache, kr_cache, quantised_query=query_quant_mode == 1, **options
    )
    if query_quant_mode == 0:
        scales = scales.new_empty(0)
    if not query_norm_flag:
        norm, norm_scales = norm.new_empty(0), scales.new_empty(0)
    return query, rope, scales, norm, norm_scales


@op(
    f"npu_mla_prolog_v3_functional{_TOKENS} Tensor kv_cache, Tensor kr_cache,{_PROLOG_3}"
    "(Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)"
)
def npu_mla_prolog_v3_functional(*tensors, **options):
    """npu_mla_prolog_v3 on copies of the caches, which come last."""
    caches = [cache.clone() for cache in tensors[9:]]
    return *npu_mla_prolog_v3(*tensors[:9], *caches, **options), *caches


@op(
    "npu_kv_rmsnorm_rope_cache(Tensor kv, Tensor gamma, Tensor cos, Tensor sin, Tensor index, Tensor k_cache, Tensor ckv_cache,"
    " *, Tensor? k_rope_scale=None, Tensor? c_kv_scale=None, Tensor? k_rope_offset=None, Tensor? c_kv_offset=None,"
    " Tensor? v=None, float epsilon=1e-5, str cache_mode='Norm', bool is_output_kv=False) -> (Tensor, Tensor, Tensor, Tensor)"
)
def npu_kv_rmsnorm_rope_cache(
    kv,
    gamma,
    cos,
    sin,
    index,
    k_cache,
    ckv_cache,
    *,
    k_rope_scale=None,
    c_kv_scale=None,
    k_rope_offset=None,
    c_kv_offset=None,
    v=None,
    epsilon=1e-5,
    cache_mode="Norm",
    is_output_kv=False,
):
    """(k_cache, ckv_cache, k, ckv) of kv [B, 1, S, D]: the rms_norm of as many dimensions as gamma has is written into
    ckv_cache, and the rest, rotated as by npu_interleave_rope, into k_cache; times their scales, rounded, if those are given.
    cache_mode Norm takes caches [B, 1, length, D] and an index [B, S] into each; PA and PA_BNSD pages [blocks, block, 1, D] and
    an index [B S] into all; PA_NZ the same with the other layout. k and ckv are not quantised, and are returned for every
    is_output_kv."""
    name = "npu_kv_rmsnorm_rope_cache"
    refuse(name, k_rope_offset=k_rope_offset, c_kv_offset=c_kv_offset, v=v)
    check(kv.dim() == 4 and kv.size(1) == 1, name, f"kv is [B, 1, S, D], not {list(kv.shape)}")
    check(cache_mode in ("Norm", "PA", "PA_BNSD", "PA_NZ"), name, f"cache_mode is Norm, PA, PA_BNSD or PA_NZ, not {cache_mode}")
    latent, turned = kv.split([gamma.size(0), kv.size(3) - gamma.size(0)], -1)
    latent = _rms_norm(latent, gamma, epsilon, name)[0]
    turned = npu_interleave_rope(turned.float(), cos.float(), sin.float()).to(kv.dtype)
    for cache, values, scale in ((k_cache, turned, k_rope_scale), (ckv_cache, latent, c_kv_scale)):
        values = values.flatten(0, 2) if scale is None else rounded(values.flatten(0, 2).float() * scale, torch.int8, name)
        if cache_mode == "Norm":
            row = torch.arange(kv.size(0), device=kv.device).repeat_interleave(kv.size(2))
            cache[row, 0, index.flatten().long()] = values.to(cache.dtype)
        else:
            _write(cache, index, values, cache_mode == "PA_NZ", name)
    return k_cache, ckv_cache, turned, latent


def _write(cache, index, values, pieces, operator):
    """Writes values [T, D] into pages [blocks, block, 1, D]."""
    if not pieces:
        return write_tokens(cache, index, values, operator)
    piece = 32 // cache.element_size()
    check(cache.is_contiguous(), operator, f"a cache in pieces is contiguous, but has the strides {list(cache.stride())}")
    check(values.size(1) % piece == 0, operator, f"pieces of {piece} do not divide {values.size(1)}")
    return write_pieces(cache.view(cache.size(0), -1, cache.size(1), piece), index, values, operator)


@precisely
def _prolog(
    name,
    token_x,
    weight_dq,
    weight_uq_qr,
    weight_uk,
    weight_dkv_kr,
    rmsnorm_gamma_cq,
    rmsnorm_gamma_ckv,
    rope_sin,
    rope_cos,
    cache_index,
    kv_cache,
    kr_cache,
    *,
    dequant_scale_x=None,
    dequant_scale_w_dq=None,
    dequant_scale_w_uq_qr=None,
    dequant_scale_w_dkv_kr=None,
    quant_scale_ckv=None,
    quant_scale_ckr=None,
    smooth_scales_cq=None,
    rmsnorm_epsilon_cq=1e-5,
    rmsnorm_epsilon_ckv=1e-5,
    cache_mode="PA_BSND",
    qc_qr_scale=1.0,
    kc_scale=1.0,
    quantised_query=None,
):
    check(token_x.dim() in (2, 3), name, f"token_x is [T, He] or [B, S, He], not {list(token_x.shape)}")
    in_order = cache_mode in ("BSND", "TND") and quantised_query is not None
    check(in_order or cache_mode in ("PA_BSND", "PA_NZ"), name, f"cache_mode is PA_BSND or PA_NZ, not {cache_mode}")
    check(in_order or cache_index is not None, name, f"the cache mode {cache_mode} needs cache_index")
    dtype, outer = rope_sin.dtype, token_x.shape[:-1]
    heads, width, latent = weight_uk.shape
    sin, cos = rope_sin.flatten(0, -2).float(), rope_cos.flatten(0, -2).float()
    check(
        weight_uq_qr.size(1) == heads * (width + sin.size(1)),
        name,
        f"weight_uq_qr has {heads} heads of {width} + {sin.size(1)} columns, not {weight_uq_qr.size(1)}",
    )
    x = token_x.flatten(0, -2)
    c = _product(x, weight_dq, dequant_scale_x, dequant_scale_w_dq, "dequant_scale_x and dequant_scale_w_dq", name)
    c = c.to(dtype).float() if weight_dq.dtype != torch.int8 else c
    c = _rms_norm(c, rmsnorm_gamma_cq.float(), rmsnorm_epsilon_cq, name)[0] * qc_qr_scale
    c, scale = _quantised(c, smooth_scales_cq) if weight_uq_qr.dtype == torch.int8 else (c.to(dtype), None)
    norm, norm_scales = c.unflatten(0, outer), c.new_empty(0, dtype=torch.float32) if scale is None else scale
    c = _product(c, weight_uq_qr, scale, dequant_scale_w_uq_qr, "dequant_scale_w_uq_qr", name)
    c = c.to(dtype) if scale is None else c
    plain, turned = c.unflatten(1, (heads, -1)).split([width, sin.size(1)], -1)
    query = torch.einsum("tnd,ndh->tnh", plain.to(dtype).float(), weight_uk.float()).to(dtype)
    rope = npu_interleave_rope(turned.float(), cos.unsqueeze(1), sin.unsqueeze(1)).to(dtype)
    scales = query.new_zeros(1, dtype=torch.float32)
    if quantised_query is None:
        quantised_query = token_x.dtype == torch.int8 and quant_scale_ckv is not None
    if quantised_query:
        check(quant_scale_ckv is not None, name, "a quantised query needs quant_scale_ckv")
        query, scales = _quantised(query.float(), None)
        rope = (rope.float() * quant_scale_ckv.flatten()[0] / scales).to(dtype)
    both = _product(x, weight_dkv_kr, dequant_scale_x, dequant_scale_w_dkv_kr, "dequant_scale_w_dkv_kr", name)
    check(both.size(1) == latent + sin.size(1), name, f"weight_dkv_kr has {latent} + {sin.size(1)} columns, not {both.size(1)}")
    kept, turned = both.split([latent, sin.size(1)], -1)
    kept = _rms_norm(kept, rmsnorm_gamma_ckv.float(), rmsnorm_epsilon_ckv, name)[0] * kc_scale
    turned = npu_interleave_rope(turned, cos, sin)
    for cache, values, by in ((kv_cache, kept, quant_scale_ckv), (kr_cache, turned, quant_scale_ckr)):
        if cache.dtype == torch.int8:
            check(by is not None, name, "an int8 kv_cache needs quant_scale_ckv, and an int8 kr_cache quant_scale_ckr")
            values = rounded(values * by.float(), torch.int8, name)
        if in_order:
            cache.copy_(values.to(cache.dtype).view(cache.shape))
        else:
            _write(cache, cache_index, values, cache_mode == "PA_NZ", name)
    return query.unflatten(0, outer), rope.unflatten(0, outer), kv_cache, kr_cache, scales, norm, norm_scales


def _product(x, weight, row_scale, column_scale, needed, name):
    """x @ weight in float32; of int8, times the scales of rows and columns."""
    if weight.dtype != torch.int8:
        return x.float() @ weight.float()
    check(row_scale is not None and column_scale is not None, name, f"int8 needs {needed}")
    return integer_matmul(x, weight).float() * row_scale.reshape(-1, 1) * column_scale.reshape(1, -1)


def _quantised(x, smooth):
    """(int8, scale [..., 1])."""
    x = x if smooth is None else x * smooth.float()
    scale = x.abs().amax(-1, keepdim=True) / 127
    return (x / torch.where(scale == 0, 1, scale)).round().to(torch.int8), scale
