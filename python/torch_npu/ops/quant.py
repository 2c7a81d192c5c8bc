"""Quantisation. Eight values of four bits, the first lowest, are packed in an int32."""

import functools

import torch
from torch.nn import functional

from .. import _hifloat8 as hifloat8
from . import dtypes
from ._define import check, op, precisely, refuse

_LIMITS = {torch.int8: 127, dtypes.INT4: 7, torch.float8_e4m3fn: 448, torch.float8_e5m2: 57344, dtypes.HIFLOAT8: 32768}


def pack_int4(x):
    """int32 [..., n / 8] of integers [..., n] from -8 to 7."""
    check(x.size(-1) % 8 == 0, "packing four-bit integers", f"the last dimension, {x.size(-1)}, is not a multiple of 8")
    digits = (x.to(torch.int64) & 0xF).unflatten(-1, (-1, 8))
    packed = (digits << torch.arange(0, 32, 4, device=x.device)).sum(-1)
    return torch.where(packed >= 2**31, packed - 2**32, packed).to(torch.int32)


def unpack_int4(x):
    """int8 [..., 8 n] of int32 [..., n]."""
    digits = (x.unsqueeze(-1) >> torch.arange(0, 32, 4, device=x.device, dtype=x.dtype)) & 0xF
    return ((digits ^ 8) - 8).flatten(-2).to(torch.int8)


# The number of products of two 8-bit integers that float32 adds without rounding.
_EXACT_TERMS = 2**24 // 2**14


def integer_matmul(a, b):
    """The exact int32 product of matrices of integers of at most eight bits. Chips have no float64, so partial sums that float32
    represents exactly are added as integers."""
    parts = zip(a.float().split(_EXACT_TERMS, -1), b.float().split(_EXACT_TERMS, -2), strict=True)
    sums = [(left @ right).to(torch.int32) for left, right in parts]
    return functools.reduce(torch.add, sums)


def integer_conv2d(x, weight, strides, dilations, groups):
    """The exact int32 convolution of integers of at most eight bits, computed in the same way."""
    channels = weight.size(1)
    step = max(1, _EXACT_TERMS // weight[0, 0].numel())
    if channels <= step:
        return functional.conv2d(x.float(), weight.float(), None, strides, 0, dilations, groups).to(torch.int32)
    x = x.unflatten(1, (groups, channels))
    parts = zip(x.split(step, 2), weight.split(step, 1), strict=True)
    sums = [integer_conv2d(left.flatten(1, 2), right, strides, dilations, groups) for left, right in parts]
    return functools.reduce(torch.add, sums)


def scale_of(packed):
    """The float32 scales encoded by npu_trans_quant_param; other scales are returned unchanged."""
    if packed.dtype != torch.int64:
        return packed
    low = packed & 0xFFFFFFFF
    return torch.where(low >= 2**31, low - 2**32, low).to(torch.int32).view(torch.float32)


def rounded(x, dtype, operator):
    """x as dtype: integers rounded half to even and clamped."""
    if dtype in (torch.int8, torch.uint8, torch.int32):
        limits = torch.iinfo(dtype)
        return x.round().clamp(limits.min, limits.max).to(dtype)
    if dtype == dtypes.INT4:
        return pack_int4(x.round().clamp(-8, 7))
    if dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
        return x.clamp(-_LIMITS[dtype], _LIMITS[dtype]).to(dtype)
    if dtype == dtypes.HIFLOAT8:
        return hifloat8.encode(x)
    raise ValueError(
        f"{operator}: quantises to int8, uint8, int32, quint4x2 (int4), float8_e4m3fn, float8_e5m2 or hifloat8, not {dtype}"
    )


@op(
    "npu_quantize(Tensor self, Tensor scales, Tensor? zero_points, int dtype, int axis=1, bool div_mode=True) -> Tensor",
    called=lambda inputs, scales, zero_points, dtype, axis, div_mode=True: ...,
)
def npu_quantize(self, scales, zero_points, dtype, axis=1, div_mode=True):
    """x / scales + zero_points, rounded before the addition; with div_mode False x * scales + zero_points, rounded after it.
    scales are one, or one per element of the axis; without div_mode that is the last one, unless axis is -2."""
    name = "npu_quantize"
    if not div_mode:
        axis = -2 if axis == -2 else -1
    scale = _along(scales, self, axis, name, "scales").float()
    zero = 0 if zero_points is None else _along(zero_points, self, axis, name, "zero_points").float()
    x = (self.float() / scale).round() + zero if div_mode else self.float() * scale + zero
    return rounded(x, dtypes.of(dtype), name)


@op(
    "npu_anti_quant(Tensor x, Tensor scale, *, Tensor? offset=None, int? dst_dtype=None, int? src_dtype=None) -> Tensor",
    called=lambda x, scale, offset=None, dst_dtype=None, src_dtype=None: ...,
)
def npu_anti_quant(x, scale, *, offset=None, dst_dtype=None, src_dtype=None):
    """(x + offset) * scale as float16 or dst_dtype; an int32 x holds four-bit integers."""
    check(x.dtype in (torch.int8, torch.int32), "npu_anti_quant", f"x is int8, or int32 for packed int4, not {x.dtype}")
    values = (unpack_int4(x) if x.dtype == torch.int32 else x).float()
    if offset is not None:
        values = values + offset.float()
    return (values * scale.float()).to(dtypes.of(dst_dtype, torch.float16))


@op(
    "npu_dynamic_quant(Tensor input, *, Tensor? smooth_scales=None, Tensor? group_index=None, int? dst_type=None,"
    ' str quant_mode="pertoken", float dst_type_max=0.0) -> (Tensor, Tensor)',
    called=lambda input_dummy, smooth_scales=None, group_index=None, dst_type=torch.int8: ...,
)
def npu_dynamic_quant(input, *, smooth_scales=None, group_index=None, dst_type=None, quant_mode="pertoken", dst_type_max=0.0):
    """(y, scale): x over scale, rounded, with scale, in float32, the largest magnitude over that of dst_type (127 of int8, 7
    of quint4x2); per row (pertoken), per column (perchannel) or for the whole tensor (pertensor). x is first multiplied by
    smooth_scales: one row, or one row per group of rows, which end at group_index."""
    name = "npu_dynamic_quant"
    dtype = dtypes.of(dst_type, torch.int8)
    check(dtype in _LIMITS, name, f"dst_type is int8, quint4x2, float8_e4m3fn, float8_e5m2 or hifloat8, not {dtype}")
    x, dim = _smoothed(input, smooth_scales, group_index, quant_mode, name)
    scale = x.abs().amax(dim, keepdim=True) / (dst_type_max or _LIMITS[dtype])
    return rounded(x / torch.where(scale == 0, 1, scale), dtype, name), _narrow(scale, quant_mode)


@op(
    "npu_dynamic_quant_asymmetric(Tensor input, *, Tensor? smooth_scales=None, Tensor? group_index=None, int? dst_type=None,"
    ' str quant_mode="pertoken", float dst_type_max=0.0) -> (Tensor, Tensor, Tensor)',
    called=lambda input_dummy, smooth_scales=None, group_index=None, dst_type=torch.int8: ...,
)
def npu_dynamic_quant_asymmetric(
    input, *, smooth_scales=None, group_index=None, dst_type=None, quant_mode="pertoken", dst_type_max=0.0
):
    """(y, scale, offset): x over scale plus offset, rounded, such that the range of x becomes that of dst_type, int8 or quint4x2;
    see npu_dynamic_quant."""
    name = "npu_dynamic_quant_asymmetric"
    dtype = dtypes.of(dst_type, torch.int8)
    check(dtype in (torch.int8, dtypes.INT4), name, f"dst_type is int8 or quint4x2, not {dtype}")
    high = _LIMITS[dtype]
    x, dim = _smoothed(input, smooth_scales, group_index, quant_mode, name)
    most = x.amax(dim, keepdim=True)
    scale = (most - x.amin(dim, keepdim=True)) / (2 * high + 1)
    safe = torch.where(scale == 0, 1, scale)
    offset = high - most / safe
    return rounded(x / safe + offset, dtype, name), _narrow(scale, quant_mode), _narrow(offset, quant_mode)


@op(
    "npu_group_quant(Tensor x, Tensor scale, Tensor group_index, *, Tensor? offset=None, ScalarType? dst_dtype=None) -> Tensor",
    called=lambda x, scale, group_index, offset=None, dst_dtype=None: ...,
)
def npu_group_quant(x, scale, group_index, *, offset=None, dst_dtype=None):
    """x * scale + offset, rounded to int8 or quint4x2. scale has a row per group of rows; the groups end at group_index."""
    name = "npu_group_quant"
    check(scale.size(0) == group_index.numel(), name, f"{group_index.numel()} groups, but {scale.size(0)} rows of scale")
    y = x.float() * scale.float()[_groups(x.size(0), group_index)]
    return rounded(y if offset is None else y + offset.float(), dtypes.of(dst_dtype, torch.int8), name)


@op(
    'npu_dynamic_block_quant(Tensor x, *, float min_scale=0.0, str round_mode="rint", int dst_type=1, int row_block_size=1,'
    " int col_block_size=128, float dst_type_max=0.0) -> (Tensor y, Tensor scale)"
)
def npu_dynamic_block_quant(
    x, *, min_scale=0.0, round_mode="rint", dst_type=1, row_block_size=1, col_block_size=128, dst_type_max=0.0
):
    """(y, scale): x over the scale of its block, rounded to int8 or dst_type. A block has row_block_size rows and col_block_size
    columns, and the largest magnitude in it over that of dst_type (dst_type_max, if that is not 0), at least min_scale, is its
    scale, float32."""
    name = "npu_dynamic_block_quant"
    dtype = dtypes.of(dst_type)
    check(x.dim() in (2, 3), name, f"x has 2 or 3 dimensions, not {x.dim()}")
    check(
        dtype in _LIMITS and dtype != dtypes.INT4, name, f"dst_type is int8, float8_e4m3fn, float8_e5m2 or hifloat8, not {dtype}"
    )
    check(round_mode == "rint" or dtype == dtypes.HIFLOAT8, name, f"round_mode is rint, not {round_mode}")
    check(min(row_block_size, col_block_size) > 0, name, f"blocks have more than 0 rows and columns, not {row_block_size}")
    rows, columns = x.shape[-2:]
    padded = functional.pad(x.float(), (0, -columns % col_block_size, 0, -rows % row_block_size))
    most = padded.abs().unflatten(-1, (-1, col_block_size)).unflatten(-3, (-1, row_block_size)).amax((-1, -3))
    scale = (most / (dst_type_max or _LIMITS[dtype])).clamp(min=min_scale)
    spread = scale.repeat_interleave(row_block_size, -2).repeat_interleave(col_block_size, -1)[..., :rows, :columns]
    return rounded(x.float() / torch.where(spread == 0, 1, spread), dtype, name), scale


@op(
    "npu_rotate_quant(Tensor x, Tensor rotation, *, Tensor? alpha=None, int? dst_dtype=None, int? axis=-1,"
    ' str? round_mode="rint", int? scale_alg=0, float? dst_type_max=0.0, bool? transpose_y=False) -> (Tensor, Tensor)'
)
@precisely
def npu_rotate_quant(
    x,
    rotation,
    *,
    alpha=None,
    dst_dtype=None,
    axis=-1,
    round_mode="rint",
    scale_alg=0,
    dst_type_max=0.0,
    transpose_y=False,
):
    """npu_dynamic_quant of the rotated x [rows, n]: each piece of k elements of a row is multiplied by rotation [k, k]. dst_dtype
    is int8 or quint4x2."""
    name = "npu_rotate_quant"
    dtype = dtypes.of(dst_dtype, torch.int8)
    refuse(name, alpha=alpha)
    check(dtype in (torch.int8, dtypes.INT4), name, f"dst_dtype is int8 or quint4x2, not {dtype}; float8 has microscales there")
    check(not transpose_y, name, "transpose_y is False; transpose the result")
    check(axis in (-1, x.dim() - 1), name, f"axis is -1, the last one, not {axis}")
    check(
        round_mode == "rint" and not scale_alg and not dst_type_max,
        name,
        "round_mode, scale_alg and dst_type_max stay as they are",
    )
    size = rotation.size(-1)
    check(rotation.dim() == 2 and rotation.size(0) == size, name, f"rotation is [k, k], not {list(rotation.shape)}")
    check(x.dim() == 2 and x.size(1) % size == 0, name, f"x is [rows, n] with n a multiple of {size}, not {list(x.shape)}")
    turned = (x.float().unflatten(1, (-1, size)) @ rotation.float()).flatten(1).to(x.dtype)
    return npu_dynamic_quant(turned, dst_type=dst_dtype)


_SCATTER = (
    "self, Tensor indices, Tensor updates, Tensor quant_scales, Tensor? quant_zero_points=None, int axis=-2, int quant_axis=-1,"
    " str reduce='update', int? dst_type=None, str? round_mode='rint') -> "
)


@op(f"npu_quant_scatter(Tensor {_SCATTER}Tensor")
def npu_quant_scatter(self, indices, updates, quant_scales, quant_zero_points=None, axis=-2, quant_axis=-1, **options):
    """A copy of self with the quantised updates along the axis: update b in batch b starting at indices[b], or with indices [n,
    2] in batch indices[b, 0] starting at indices[b, 1]. They are quantised by npu_quantize with a scale and a zero point per
    element of quant_axis, the last one."""
    return npu_quant_scatter_(self.clone(), indices, updates, quant_scales, quant_zero_points, axis, quant_axis, **options)


@op(f"npu_quant_scatter_(Tensor(a!) {_SCATTER}Tensor(a!)")
def npu_quant_scatter_(
    self,
    indices,
    updates,
    quant_scales,
    quant_zero_points=None,
    axis=-2,
    quant_axis=-1,
    reduce="update",
    dst_type=None,
    round_mode="rint",
):
    """npu_quant_scatter in place."""
    name = "npu_quant_scatter"
    check(reduce == "update", name, f"reduce is update, not {reduce}")
    check(round_mode == "rint", name, f"round_mode is rint, not {round_mode}")
    check(updates.dim() == self.dim() >= 3, name, f"updates {list(updates.shape)} have the dimensions of {list(self.shape)}")
    axis, quant_axis = axis % self.dim(), quant_axis % self.dim()
    check(0 < axis < self.dim() - 1, name, f"the axis is neither the first nor the last, but {axis}")
    check(quant_axis == self.dim() - 1, name, f"quant_axis is the last one, not {quant_axis}")
    count = updates.size(0)
    pairs = indices.dim() == 2 and indices.size(1) == 2
    check(
        indices.size(0) == count and (indices.dim() == 1 or pairs),
        name,
        f"indices are [{count}] or [{count}, 2], as there are {count} updates, not {list(indices.shape)}",
    )
    zero = None if quant_zero_points is None else quant_zero_points.flatten()
    values = npu_quantize(updates, quant_scales.flatten(), zero, dst_type if dst_type is not None else torch.int8, -1)
    batch, start = indices.long().unbind(1) if pairs else (torch.arange(count, device=self.device), indices.long())
    steps = start.unsqueeze(1) + torch.arange(updates.size(axis), device=self.device)
    self.movedim(axis, 1)[batch.unsqueeze(1), steps] = values.movedim(axis, 1).to(self.dtype)
    return self


@op("npu_trans_quant_param(Tensor scale, Tensor? offset=None, int? round_mode=0) -> Tensor")
def npu_trans_quant_param(scale, offset=None, round_mode=0):
    """int64: the upper 19 bits of the float32 scale (round_mode 1: rounded, not cut), bit 46, and from bit 37 nine bits of
    offset."""
    name = "npu_trans_quant_param"
    check(scale.dtype == torch.float32, name, f"scale is float32, not {scale.dtype}")
    check(round_mode in (0, 1), name, f"round_mode is 0 or 1, not {round_mode}")
    bits = scale.contiguous().view(torch.int32).to(torch.int64) & 0xFFFFFFFF
    if round_mode == 1:
        bits = bits + 0xFFF + ((bits >> 13) & 1)
    packed = (bits & 0xFFFFE000) | (1 << 46)
    if offset is None:
        return packed
    return packed | ((offset.round().clamp(-256, 255).to(torch.int64) & 0x1FF) << 37)


@op("npu_convert_weight_to_int4pack(Tensor weight, int inner_k_tiles=0) -> Tensor")
def npu_convert_weight_to_int4pack(weight, inner_k_tiles=0):
    """Integers from -8 to 7, int32 [..., n], packed in int32 [..., n / 8]."""
    check(weight.dtype == torch.int32, "npu_convert_weight_to_int4pack", f"weight is int32, not {weight.dtype}")
    return pack_int4(weight)


@op("npu_dtype_cast(Tensor self, int dtype, int? input_dtype=None) -> Tensor")
def npu_dtype_cast(self, dtype, input_dtype=None):
    """The tensor as dtype, a torch.dtype or torch_npu.hifloat8, whose codes are uint8. input_dtype=hifloat8: self holds such
    codes."""
    name = "npu_dtype_cast"
    goal, own = dtypes.of(dtype), dtypes.of(input_dtype)
    if own == dtypes.HIFLOAT8:
        self = hifloat8.decode(self)
    if goal == dtypes.HIFLOAT8:
        return hifloat8.encode(self)
    check(isinstance(goal, torch.dtype), name, f"torch has no data type {goal}")
    return self.to(goal)


@op("_npu_dtype_cast(Tensor self, ScalarType dtype) -> Tensor")
def _npu_dtype_cast(self, dtype):
    """self.to(dtype)."""
    return self.to(dtype)


@op("npu_dtype_cast_(Tensor(a!) self, Tensor src) -> Tensor(a!)")
def npu_dtype_cast_(self, src):
    """self.copy_(src)."""
    return self.copy_(src)


def _along(given, x, axis, operator, name):
    """`given` reshaped to broadcast to x along the axis."""
    if given.numel() == 1:
        return given.reshape([])
    check(given.dim() in (1, x.dim()), operator, f"{name} have one dimension, or those of the input, not {list(given.shape)}")
    if given.dim() == x.dim() and x.dim() > 1:
        return given
    check(given.numel() == x.size(axis), operator, f"{name} are one or {x.size(axis)}, as axis {axis} has, not {given.numel()}")
    shape = [1] * x.dim()
    shape[axis] = -1
    return given.view(shape)


def _groups(rows, ends):
    """The group of each row."""
    row = torch.arange(rows, device=ends.device)
    return (row.unsqueeze(1) >= ends).sum(1).clamp(max=ends.numel() - 1)


def _smoothed(x, smooth, group_index, mode, name):
    check(mode in ("pertoken", "perchannel", "pertensor"), name, f"quant_mode is pertoken, perchannel or pertensor, not {mode}")
    dim = {"pertoken": -1, "perchannel": -2, "pertensor": tuple(range(x.dim()))}[mode]
    x = x.float()
    if group_index is not None:
        check(smooth is not None and smooth.dim() == 2, name, "group_index needs smooth_scales with a row per group")
        rows = x.flatten(0, -2)
        return (rows * smooth.float()[_groups(rows.size(0), group_index)]).view_as(x), dim
    return (x if smooth is None else x * smooth.float()), dim


def _narrow(scale, mode):
    return scale.squeeze({"pertoken": -1, "perchannel": -2, "pertensor": tuple(range(scale.dim()))}[mode])
