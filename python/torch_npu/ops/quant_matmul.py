"""Products of quantised matrices."""

import torch
from torch.nn.functional import conv2d, pad

from .. import _hifloat8 as hifloat8
from . import dtypes
from ._define import check, op, precisely, refuse
from .quant import integer_matmul, rounded, scale_of, unpack_int4


@op(
    "npu_quant_matmul(Tensor x1, Tensor x2, Tensor scale, *, Tensor? offset=None, Tensor? pertoken_scale=None, Tensor? bias=None,"
    " int? output_dtype=None, int? x1_dtype=None, int? x2_dtype=None, int? pertoken_scale_dtype=None, int? scale_dtype=None,"
    " int[]? group_sizes=None, Tensor? y_scale=None) -> Tensor"
)
def npu_quant_matmul(
    x1,
    x2,
    scale,
    *,
    offset=None,
    pertoken_scale=None,
    bias=None,
    output_dtype=None,
    x1_dtype=None,
    x2_dtype=None,
    pertoken_scale_dtype=None,
    scale_dtype=None,
    group_sizes=None,
    y_scale=None,
):
    """(x1 @ x2 + integer bias) * scale * pertoken_scale + offset + floating bias, as int8 or output_dtype; int32 is the product
    with its bias alone. x1 and x2 are int8, or int32 that hold four-bit integers; scale is floating, or of
    npu_trans_quant_param."""
    name = "npu_quant_matmul"
    refuse(name, x1_dtype=x1_dtype, x2_dtype=x2_dtype, pertoken_scale_dtype=pertoken_scale_dtype, scale_dtype=scale_dtype)
    refuse(name, group_sizes=group_sizes, y_scale=y_scale)
    check(
        x1.dtype == x2.dtype and x1.dtype in (torch.int8, torch.int32),
        name,
        f"x1 and x2 are both int8 or int32, not {x1.dtype}, {x2.dtype}",
    )
    dtype = dtypes.of(output_dtype, torch.int8)
    if x1.dtype == torch.int32:
        x1 = unpack_int4(x1)
        x2 = unpacked_weight(x2, x1.size(-1), name)
    check(x1.size(-1) == x2.size(-2), name, f"{list(x1.shape)} cannot be multiplied by {list(x2.shape)}")
    y = integer_matmul(x1, x2)
    if bias is not None and not bias.is_floating_point():
        y = y + bias
    if dtype == torch.int32:
        return y
    y = y.float() * scale_of(scale).float()
    if pertoken_scale is not None:
        y = y * pertoken_scale.unsqueeze(-1)
    if offset is not None:
        y = y + offset.float()
    if bias is not None and bias.is_floating_point():
        y = y + bias.float()
    return rounded(y, dtype, name) if dtype == torch.int8 else y.to(dtype)


@op(
    "npu_weight_quant_batchmatmul(Tensor x, Tensor weight, Tensor antiquant_scale, Tensor? antiquant_offset=None,"
    " Tensor? quant_scale=None, Tensor? quant_offset=None, Tensor? bias=None, int antiquant_group_size=0, int inner_precise=0,"
    " int? weight_dtype=None) -> Tensor",
    called=lambda x, weight, antiquant_scale, antiquant_offset=None, quant_scale=None, quant_offset=None, bias=None,
    antiquant_group_size=0, inner_precise=0: ...,
)  # fmt: skip
@precisely
def npu_weight_quant_batchmatmul(
    x,
    weight,
    antiquant_scale,
    antiquant_offset=None,
    quant_scale=None,
    quant_offset=None,
    bias=None,
    antiquant_group_size=0,
    inner_precise=0,
    weight_dtype=None,
):
    """x @ ((weight + antiquant_offset) * antiquant_scale) + bias; with quant_scale, that * quant_scale + quant_offset in int8.
    weight [k, n] is int8, int32 that holds four-bit integers, or with weight_dtype=torch_npu.hifloat8 the codes of those;
    scales and offsets are one, [n], or a row per antiquant_group_size rows of weight."""
    name = "npu_weight_quant_batchmatmul"
    if dtypes.of(weight_dtype) == dtypes.HIFLOAT8:
        weight = hifloat8.decode(weight)
    elif weight.dtype == torch.int32:
        weight = unpacked_weight(weight, x.size(-1), name)
    check(weight.size(-2) == x.size(-1), name, f"{list(x.shape)} cannot be multiplied by {list(weight.shape)}")
    spread = lambda rows: _spread(rows, antiquant_group_size, weight.size(-2))  # noqa: E731
    values = weight.float()
    if antiquant_offset is not None:
        values = values + spread(antiquant_offset.float())
    y = x.float() @ (values * spread(scale_of(antiquant_scale).float()))
    if bias is not None:
        y = y + bias.float()
    if quant_scale is None:
        return y.to(x.dtype)
    y = y * scale_of(quant_scale).float()
    return rounded(y if quant_offset is None else y + quant_offset.float(), torch.int8, name)


@op(
    "npu_quant_conv2d(Tensor input, Tensor weight, Tensor scale, int[2] strides=1, int[2] pads=0, int[2] dilations=1,"
    " int groups=1, int offset_x=0, str round_mode='rint', int? output_dtype=None, Tensor? bias=None,"
    " Tensor? offset=None, int? input_dtype=None, int? weight_dtype=None) -> Tensor"
)
def npu_quant_conv2d(
    input,
    weight,
    scale,
    strides=1,
    pads=0,
    dilations=1,
    groups=1,
    offset_x=0,
    round_mode="rint",
    output_dtype=None,
    bias=None,
    offset=None,
    input_dtype=None,
    weight_dtype=None,
):
    """(the convolution of int8 + bias) * scale per channel, as float16 or output_dtype. The border is offset_x."""
    name = "npu_quant_conv2d"
    refuse(name, offset=offset, input_dtype=input_dtype, weight_dtype=weight_dtype)
    check(round_mode == "rint", name, f"round_mode is rint, not {round_mode}")
    check(input.dtype == weight.dtype == torch.int8, name, f"input and weight are int8, not {input.dtype} and {weight.dtype}")
    x = pad(input.double(), (pads[1], pads[1], pads[0], pads[0]), value=float(offset_x))
    y = conv2d(x, weight.double(), None, strides, 0, dilations, groups)
    if bias is not None:
        y = y + bias.view(-1, 1, 1)
    y = (y.float() * scale_of(scale).float().view(-1, 1, 1)).to(torch.float32)
    dtype = dtypes.of(output_dtype, torch.float16)
    return rounded(y, dtype, name) if dtype == torch.int8 else y.to(dtype)


def unpacked_weight(packed, rows, operator):
    """int8 [rows, n] of int32 that holds eight in a row, or of the transpose of such."""
    if packed.size(-2) == rows:
        return unpack_int4(packed)
    fits = packed.size(-2) * 8 == rows
    check(fits, operator, f"a packed weight of {rows} rows is [{rows}, n / 8] or [{rows // 8}, n], not {list(packed.shape)}")
    return unpack_int4(packed.transpose(-1, -2)).transpose(-1, -2)


def _spread(rows, group, count):
    if not group or rows.dim() < 2 or rows.size(-2) == 1:
        return rows
    return rows.repeat_interleave(group, -2)[..., :count, :]
