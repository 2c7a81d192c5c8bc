"""Products of quantised matrices."""

import torch
from torch.nn.functional import gelu, pad
from torch.nn.modules.utils import _pair

from .. import _hifloat8 as hifloat8
from . import dtypes
from ._define import check, op, precisely, refuse
from .quant import integer_conv2d, integer_matmul, rounded, scale_of, unpack_int4


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
    "npu_quant_matmul_gelu(Tensor x1, Tensor x2, Tensor x1_scale, Tensor x2_scale, *, Tensor? bias=None,"
    " str? approximate='gelu_erf') -> Tensor"
)
def npu_quant_matmul_gelu(x1, x2, x1_scale, x2_scale, *, bias=None, approximate="gelu_erf"):
    """gelu of npu_quant_matmul with a scale per row of x1 and per column of x2, or its approximation gelu_tanh. It is bfloat16 if
    x2_scale or bias is, else float16."""
    name = "npu_quant_matmul_gelu"
    check(approximate in ("gelu_erf", "gelu_tanh"), name, f"approximate is gelu_erf or gelu_tanh, not {approximate}")
    check(x1_scale.dim() == x2_scale.dim() == 1, name, "x1_scale and x2_scale have one dimension")
    y = npu_quant_matmul(x1, x2, x2_scale, pertoken_scale=x1_scale, bias=bias, output_dtype=torch.float32)
    brain = torch.bfloat16 in (x2_scale.dtype, None if bias is None else bias.dtype)
    return gelu(y, approximate="tanh" if approximate == "gelu_tanh" else "none").to(torch.bfloat16 if brain else torch.float16)


@op(
    "npu_quant_matmul_reduce_sum(Tensor x1, Tensor x2, *, Tensor? x1_scale=None, Tensor? x2_scale=None) -> Tensor",
)
def npu_quant_matmul_reduce_sum(x1, x2, *, x1_scale=None, x2_scale=None):
    """bfloat16 [m, n]: the sum over b of x1 @ x2, int8 [b, m, k] and [b, k, n], times x1_scale [b, m] and x2_scale [n]."""
    name = "npu_quant_matmul_reduce_sum"
    check(x1_scale is not None and x2_scale is not None, name, "x1_scale and x2_scale are needed")
    check(x1.dtype == x2.dtype == torch.int8, name, f"x1 and x2 are int8, not {x1.dtype} and {x2.dtype}")
    fits = x1.dim() == x2.dim() == 3 and x1.size(0) == x2.size(0) and x1.size(2) == x2.size(1)
    check(fits, name, f"x1 [b, m, k] and x2 [b, k, n] do not have the shapes {list(x1.shape)} and {list(x2.shape)}")
    check(x1_scale.shape == x1.shape[:2], name, f"x1_scale is {list(x1.shape[:2])}, not {list(x1_scale.shape)}")
    y = integer_matmul(x1, x2).float() * x1_scale.unsqueeze(-1) * x2_scale.float()
    return y.sum(0).to(torch.bfloat16)


@op(
    "npu_transpose_quant_batchmatmul(Tensor x1, Tensor x2, int dtype, *, Tensor? bias=None, Tensor? x1_scale=None,"
    " Tensor? x2_scale=None, int[]? group_sizes=None, int[]? perm_x1=None, int[]? perm_x2=None, int[]? perm_y=None,"
    " int? batch_split_factor=1, int? x1_dtype=None, int? x2_dtype=None) -> Tensor"
)
@precisely
def npu_transpose_quant_batchmatmul(
    x1,
    x2,
    dtype,
    *,
    bias=None,
    x1_scale=None,
    x2_scale=None,
    group_sizes=None,
    perm_x1=None,
    perm_x2=None,
    perm_y=None,
    batch_split_factor=1,
    x1_dtype=None,
    x2_dtype=None,
):
    """[m, b, n] as dtype: the product of x1 [m, b, k] and x2 [b, k, n] (perm_x2 (0, 1, 2)) or [b, n, k] ((0, 2, 1)), times
    x1_scale [m] or one, and x2_scale [n]. float8_e8m0fnu scales belong to 32 elements of k each: [m, b, k / 64, 2], and
    [b, k / 64, n, 2] or [b, n, k / 64, 2]. x1 and x2 are float8, or with x1_dtype and x2_dtype hifloat8."""
    name = "npu_transpose_quant_batchmatmul"
    refuse(name, bias=bias)
    perms = tuple(perm_x1 or (1, 0, 2)), tuple(perm_x2 or (0, 1, 2)), tuple(perm_y or (1, 0, 2))
    check(perms[0] == perms[2] == (1, 0, 2), name, f"perm_x1 and perm_y are [1, 0, 2], not {perms[0]} and {perms[2]}")
    check(perms[1] in ((0, 1, 2), (0, 2, 1)), name, f"perm_x2 is [0, 1, 2] or [0, 2, 1], not {perms[1]}")
    check(batch_split_factor == 1, name, f"batch_split_factor is 1, not {batch_split_factor}")
    check(x1.dim() == x2.dim() == 3, name, f"x1 and x2 have three dimensions, not {list(x1.shape)} and {list(x2.shape)}")
    a, b = (
        hifloat8.decode(x) if dtypes.of(number) == dtypes.HIFLOAT8 else x.float()
        for x, number in ((x1, x1_dtype), (x2, x2_dtype))
    )
    a, b = a.permute(perms[0]), b.permute(perms[1])
    check(a.size(2) == b.size(1), name, f"{list(a.shape)} cannot be multiplied by {list(b.shape)}")
    micro = x1_scale is not None and x1_scale.dim() == 4
    if micro:
        check(x2_scale is not None and x2_scale.dim() == 4, name, "a scale of x1 per 32 elements goes with one of x2")
        a = a * x1_scale.float().flatten(2).transpose(0, 1).repeat_interleave(32, 2)
        pairs = x2_scale.float().transpose(2, 3).flatten(1, 2) if perms[1] == (0, 1, 2) else x2_scale.float().flatten(2).mT
        b = b * pairs.repeat_interleave(32, 1)
    y = a @ b
    if not micro and x2_scale is not None:
        y = y * scale_of(x2_scale).float()
    if not micro and x1_scale is not None:
        y = y * scale_of(x1_scale).float().unsqueeze(-1)
    y = y.transpose(0, 1)
    wanted = dtypes.of(dtype)
    check(
        wanted in (torch.float16, torch.bfloat16, torch.float32, dtypes.HIFLOAT8),
        name,
        f"dtype is float16, bfloat16 or hifloat8, not {wanted}",
    )
    return rounded(y, wanted, name) if wanted == dtypes.HIFLOAT8 else y.to(wanted).contiguous()


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
    weight [k, n] is int8, int32 that holds four-bit integers, or codes of hifloat8 with weight_dtype=torch_npu.hifloat8;
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
    strides=(1, 1),
    pads=(0, 0),
    dilations=(1, 1),
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
    pads = _pair(pads)
    x = pad(input, (pads[1], pads[1], pads[0], pads[0]), value=offset_x)
    y = integer_conv2d(x, weight, strides, dilations, groups)
    if bias is not None:
        y = y + bias.view(-1, 1, 1)
    y = (y.float() * scale_of(scale).float().view(-1, 1, 1)).to(torch.float32)
    dtype = dtypes.of(output_dtype, torch.float16)
    return rounded(y, dtype, name) if dtype == torch.int8 else y.to(dtype)


def unpacked_weight(packed, rows, operator):
    """Unpacks int32, which holds eight integers per element along the rows, or its transpose, to int8 [rows, n]."""
    if packed.size(-2) == rows:
        return unpack_int4(packed)
    fits = packed.size(-2) * 8 == rows
    check(fits, operator, f"a packed weight of {rows} rows is [{rows}, n / 8] or [{rows // 8}, n], not {list(packed.shape)}")
    return unpack_int4(packed.transpose(-1, -2)).transpose(-1, -2)


def _spread(rows, group, count):
    if not group or rows.dim() < 2 or rows.size(-2) == 1:
        return rows
    return rows.repeat_interleave(group, -2)[..., :count, :]
