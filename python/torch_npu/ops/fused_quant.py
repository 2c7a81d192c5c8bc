"""Norms and activations whose results are quantised."""

import torch
from torch.nn.functional import silu

from . import dtypes
from ._define import check, op, precisely, refuse
from .norm import _rms_norm
from .quant import _groups, npu_dynamic_quant, rounded


@op(
    "npu_rms_norm_quant(Tensor x, Tensor gamma, Tensor beta, Tensor scale, Tensor offset, float epsilon=1e-06, *,"
    " int? dst_dtype=None) -> Tensor"
)
@precisely
def npu_rms_norm_quant(x, gamma, beta, scale, offset, epsilon=1e-6, *, dst_dtype=None):
    """npu_rms_norm + beta, times scale, plus offset, rounded to int8, quint4x2, float8 or hifloat8."""
    name = "npu_rms_norm_quant"
    y = _rms_norm(x.float(), gamma.reshape(-1).float(), epsilon, name)[0] + beta.reshape(-1).float()
    return rounded(y * scale.float() + offset.float(), dtypes.of(dst_dtype, torch.int8), name)


@op(
    "npu_add_rms_norm_quant(Tensor x1, Tensor x2, Tensor gamma, Tensor scales1, Tensor? zero_points1, Tensor? beta=None,"
    " Tensor? scales2=None, Tensor? zero_points2=None, *, int axis=-1, float epsilon=1e-06, bool div_mode=True,"
    " int? dst_type=None) -> (Tensor, Tensor, Tensor)"
)
@precisely
def npu_add_rms_norm_quant(
    x1,
    x2,
    gamma,
    scales1,
    zero_points1,
    beta=None,
    scales2=None,
    zero_points2=None,
    *,
    axis=-1,
    epsilon=1e-6,
    div_mode=True,
    dst_type=None,
):
    """(y1, y2, x): the npu_rms_norm + beta of x = x1 + x2, over scales1 (without div_mode: times), plus zero_points1, rounded to
    int8 or dst_type; the same with scales2 and zero_points2, zeros without scales2."""
    name = "npu_add_rms_norm_quant"
    check(axis == -1, name, f"axis is -1, the last one, not {axis}")
    dtype = dtypes.of(dst_type, torch.int8)
    x = x1 + x2
    y = _added_norm(x, gamma, beta, epsilon, name)
    results = []
    for scales, zero in ((scales1, zero_points1), (scales2, zero_points2)):
        if scales is None:
            results.append(torch.zeros_like(results[0]))
            continue
        quantised = y / scales.float() if div_mode else y * scales.float()
        results.append(rounded(quantised if zero is None else quantised + zero.float(), dtype, name))
    return *results, x


@op(
    "npu_add_rms_norm_dynamic_quant(Tensor x1, Tensor x2, Tensor gamma, *, Tensor? smooth_scale1=None,"
    " Tensor? smooth_scale2=None, Tensor? beta=None, float epsilon=1e-6, bool[2]? output_mask=None, int? y_dtype=None)"
    " -> (Tensor, Tensor, Tensor, Tensor, Tensor)"
)
@precisely
def npu_add_rms_norm_dynamic_quant(
    x1, x2, gamma, *, smooth_scale1=None, smooth_scale2=None, beta=None, epsilon=1e-6, output_mask=None, y_dtype=None
):
    """(y1, y2, x, scale1, scale2): npu_dynamic_quant of the npu_rms_norm + beta of x = x1 + x2, times smooth_scale1 and
    smooth_scale2. output_mask selects the results that are computed; the others are empty. Without it, the second one is computed
    if both smooth scales are given."""
    name = "npu_add_rms_norm_dynamic_quant"
    mask = list(output_mask) if output_mask else [True, smooth_scale1 is not None and smooth_scale2 is not None]
    check(any(mask), name, "output_mask asks for one of the results at least")
    x = x1 + x2
    y = _added_norm(x, gamma, beta, epsilon, name)
    results = []
    for wanted, smooth in zip(mask, (smooth_scale1, smooth_scale2), strict=True):
        check(wanted or smooth is None or output_mask is None, name, "a smooth scale is given, but output_mask is False for it")
        quantised, scale = npu_dynamic_quant(y, smooth_scales=smooth, dst_type=y_dtype)
        results.append((quantised, scale) if wanted else (quantised.new_empty(0), scale.new_empty(0)))
    return results[0][0], results[1][0], x, results[0][1], results[1][1]


@op(
    "npu_swiglu_quant(Tensor x, *, Tensor? smooth_scales=None, Tensor? offsets=None, Tensor? group_index=None,"
    " bool activate_left=False, int quant_mode=0, int group_list_type=0, ScalarType? dst_type=None) -> (Tensor, Tensor)"
)
@precisely
def npu_swiglu_quant(
    x,
    *,
    smooth_scales=None,
    offsets=None,
    group_index=None,
    activate_left=False,
    quant_mode=0,
    group_list_type=0,
    dst_type=None,
):
    """(y, scale): the swiglu of x times smooth_scales: quant_mode 0 adds offsets and rounds to int8 or quint4x2, and scale is
    zero; 1 multiplies by scale, 127 (or 7) over the row's largest magnitude, and rounds. smooth_scales and offsets are a row or
    a number per group of rows; group_index has the ends of the groups, or with group_list_type 1 their numbers of rows."""
    name = "npu_swiglu_quant"
    dtype = dtypes.of(dst_type, torch.int8)
    check(dtype in (torch.int8, dtypes.INT4), name, f"dst_type is int8 or quint4x2, not {dtype}")
    check(quant_mode in (0, 1), name, f"quant_mode is 0 (static) or 1 (dynamic), not {quant_mode}")
    y = _swiglu(x.float(), activate_left, name)
    rows = y.flatten(0, -2)
    ends = torch.full((1,), rows.size(0), device=x.device) if group_index is None else group_index
    ends = ends.cumsum(0) if group_list_type == 1 else ends
    group, groups = _groups(rows.size(0), ends), ends.numel()
    rows = rows * _of_groups(smooth_scales, group, groups, 1.0)
    if quant_mode == 0:
        rows = rows + _of_groups(offsets, group, groups, 0.0)
        scale = rows.new_zeros(rows.size(0))
    else:
        most = rows.abs().amax(-1)
        scale = (127.0 if dtype == torch.int8 else 7.0) / torch.where(most == 0, 1, most)
        rows = rows * scale.unsqueeze(1)
    return rounded(rows, dtype, name).unflatten(0, x.shape[:-1]), scale.view(x.shape[:-1])


@op(
    "npu_dequant_swiglu_quant(Tensor x, *, Tensor? weight_scale=None, Tensor? activation_scale=None, Tensor? bias=None,"
    " Tensor? quant_scale=None, Tensor? quant_offset=None, Tensor? group_index=None, bool activate_left=False,"
    " int quant_mode=0, int? dst_type=None, int? round_mode=None, int? activate_dim=None, int swiglu_mode=0,"
    " float clamp_limit=7.0, float glu_alpha=1.702, float glu_bias=1.0) -> (Tensor, Tensor)"
)
@precisely
def npu_dequant_swiglu_quant(
    x,
    *,
    weight_scale=None,
    activation_scale=None,
    bias=None,
    quant_scale=None,
    quant_offset=None,
    group_index=None,
    activate_left=False,
    quant_mode=0,
    dst_type=None,
    round_mode=None,
    activate_dim=None,
    swiglu_mode=0,
    clamp_limit=7.0,
    glu_alpha=1.702,
    glu_bias=1.0,
):
    """(y, scale) of x [rows, 2 H]: an int32 x, plus an int32 bias, is multiplied by weight_scale [groups, 2 H] and
    activation_scale [rows, 1], plus a floating bias; its swiglu, of neighbours with swiglu_mode 1, in which 1 and 2 clamp both
    parts to clamp_limit, the activated one from above only, take sigmoid(glu_alpha x), and add glu_bias to the other;
    quantised: quant_mode 0 divides by quant_scale and adds quant_offset, with scale zero, 1 is npu_dynamic_quant with
    quant_scale as smooth scales. group_index has the number of rows of each group; rows after them are zeros."""
    name = "npu_dequant_swiglu_quant"
    refuse(name, round_mode=round_mode or None)
    dtype = dtypes.of(dst_type, torch.int8)
    check(dtype in (torch.int8, torch.float8_e4m3fn, torch.float8_e5m2), name, f"dst_type is int8 or float8, not {dtype}")
    check(activate_dim in (None, -1, x.dim() - 1), name, f"activate_dim is -1, the last one, not {activate_dim}")
    check(quant_mode in (0, 1), name, f"quant_mode is 0 (static) or 1 (dynamic), not {quant_mode}")
    check(swiglu_mode in (0, 1, 2), name, f"swiglu_mode is 0, 1 or 2, not {swiglu_mode}")
    rows = x.flatten(0, -2)
    count = rows.size(0)
    ends = torch.full((1,), count, device=x.device) if group_index is None else group_index.cumsum(0)
    group, groups = _groups(count, ends), ends.numel()
    if x.dtype == torch.int32:
        check(weight_scale is not None, name, "an int32 x needs weight_scale")
        rows = rows + bias if bias is not None and bias.dtype == torch.int32 else rows
        rows = rows.float() * _of_groups(weight_scale.reshape(groups, -1), group, groups, 1.0)
        rows = rows if activation_scale is None else rows * activation_scale.reshape(-1, 1).float()
        rows = rows + bias.float() if bias is not None and bias.dtype != torch.int32 else rows
    else:
        given = {"weight_scale": weight_scale, "activation_scale": activation_scale, "bias": bias}
        check(not any(t is not None for t in given.values()), name, f"{x.dtype} is not dequantised; leave out {', '.join(given)}")
    variant = None if swiglu_mode == 0 else (clamp_limit, glu_alpha, glu_bias)
    y = _swiglu(rows.float(), activate_left, name, swiglu_mode == 1, variant)
    factor = _of_groups(quant_scale, group, groups, 1.0)
    if quant_mode == 0:
        y = rounded(y / factor + _of_groups(quant_offset, group, groups, 0.0), dtype, name)
        scale = torch.zeros(count, device=x.device)
    else:
        y, scale = npu_dynamic_quant(y * factor, dst_type=dtype)
    outside = torch.arange(count, device=x.device) >= ends[-1]
    y, scale = torch.where(outside.unsqueeze(1), torch.zeros_like(y), y), scale.masked_fill(outside, 0)
    return y.unflatten(0, x.shape[:-1]), scale.view(x.shape[:-1])


def _added_norm(x, gamma, beta, epsilon, name):
    y = _rms_norm(x.float(), gamma.float(), epsilon, name)[0]
    return y if beta is None else y + beta.float()


def _swiglu(x, left, name, neighbours=False, variant=None):
    check(x.size(-1) % 2 == 0, name, f"the last dimension has {x.size(-1)} elements, which is odd")
    if neighbours:
        active, other = x[..., ::2], x[..., 1::2]
    else:
        active, other = x.chunk(2, -1) if left else reversed(x.chunk(2, -1))
    if variant is None:
        return silu(active) * other
    limit, alpha, bias = variant
    active, other = active.clamp(max=limit), other.clamp(-limit, limit)
    return active * torch.sigmoid(alpha * active) * (other + bias)


def _of_groups(given, group, groups, default):
    """For each row the values of its group, or the default."""
    if given is None:
        return default
    given = given.float()
    if given.dim() == 2:
        return given[group]
    return given[group].unsqueeze(1) if given.numel() == groups else given
