"""Products of matrices, group by group."""

import torch
from torch.nn.functional import gelu, relu, silu

from . import dtypes
from ._define import check, op, refuse
from .activation import npu_fast_gelu
from .quant import integer_matmul, npu_dynamic_quant

_QUANTISED = (
    "Tensor[]? bias=None, Tensor[]? scale=None, Tensor[]? offset=None, Tensor[]? antiquant_scale=None,"
    " Tensor[]? antiquant_offset=None, Tensor[]? per_token_scale=None,"
)
_REST = (
    " Tensor[]? activation_input=None, Tensor[]? activation_quant_scale=None, Tensor[]? activation_quant_offset=None,"
    " int? split_item=0, int? group_type=None, int? group_list_type=0, int? act_type=0,"
)


@op(
    f"npu_grouped_matmul(Tensor[] x, Tensor[] weight, *, {_QUANTISED} Tensor? group_list=None,{_REST} int[]? tuning_config=None,"
    " int? output_dtype=None, int? x_dtype=None, int? weight_dtype=None, int? scale_dtype=None, int? per_token_scale_dtype=None)"
    " -> Tensor[]"
)
def npu_grouped_matmul(
    x,
    weight,
    *,
    bias=None,
    scale=None,
    offset=None,
    antiquant_scale=None,
    antiquant_offset=None,
    per_token_scale=None,
    group_list=None,
    activation_input=None,
    activation_quant_scale=None,
    activation_quant_offset=None,
    split_item=0,
    group_type=None,
    group_list_type=0,
    act_type=0,
    tuning_config=None,
    output_dtype=None,
    x_dtype=None,
    weight_dtype=None,
    scale_dtype=None,
    per_token_scale_dtype=None,
):
    """The products x_i @ weight_i + bias_i of the groups i: a list, or with split_item 2 or 3 a list of their concatenation.

    A single x holds the groups concatenated: as rows (group_type 0) or, transposed, as columns that are multiplied with the rows
    of a single weight (group_type 2). group_list has their ends (group_list_type 0) or sizes (1); a tensor is read back, which
    waits for the device. Rows after the last group are zeros in the concatenation. A single weight is [groups, k, n]. Results of
    int8 groups are multiplied by scale and per_token_scale and converted to output_dtype. An int8 weight with a floating x means
    (weight + antiquant_offset) antiquant_scale."""
    name = "npu_grouped_matmul"
    refuse(
        name,
        offset=offset or None,
        activation_input=activation_input or None,
        activation_quant_scale=activation_quant_scale or None,
        activation_quant_offset=activation_quant_offset or None,
    )
    check(act_type == 0, name, f"act_type is 0, not {act_type}; apply the activation to the result")
    check(group_type in (None, -1, 0, 2), name, f"group_type is -1 (none), 0 (rows of x) or 2 (columns of x), not {group_type}")
    ends = _ends(group_list, group_list_type, name)
    if group_type == 2:
        return [_by_columns(x, weight, ends, name)]
    xs = list(x)
    groups = weight[0].size(0) if len(weight) == 1 and weight[0].dim() == 3 else len(weight)
    weights = list(weight[0]) if groups != len(weight) or weight[0].dim() == 3 else list(weight)
    if len(xs) == 1 and (groups > 1 or ends is not None):
        check(ends is not None and len(ends) == groups, name, f"one x for {groups} groups needs a group_list of {groups}")
        check(ends[-1] <= xs[0].size(0), name, f"the last group ends at {ends[-1]}, but x has {xs[0].size(0)} rows")
        starts = [0, *ends[:-1]]
        xs = [xs[0][start:end] for start, end in zip(starts, ends, strict=True)]
        if per_token_scale:
            per_token_scale = [per_token_scale[0][start:end] for start, end in zip(starts, ends, strict=True)]
    check(len(xs) == groups, name, f"{len(xs)} groups of x, but {groups} of weight")
    out = [
        _product(
            own,
            weights[i],
            *(_of_group(given, i) for given in (bias, scale, antiquant_scale, antiquant_offset)),
            per_token_scale[i] if per_token_scale else None,
            dtypes.of(output_dtype),
        )
        for i, own in enumerate(xs)
    ]
    if split_item not in (2, 3):
        return out
    joined = torch.cat(out)
    if len(x) == 1 and joined.size(0) < x[0].size(0):
        joined = torch.cat((joined, joined.new_zeros(x[0].size(0) - joined.size(0), joined.size(1))))
    return [joined]


@op(
    f"npu_grouped_matmul.List(Tensor[] x, Tensor[] weight, *, {_QUANTISED} int[]? group_list=None,{_REST}"
    " ScalarType? output_dtype=None) -> Tensor[]"
)
def npu_grouped_matmul_list(x, weight, **options):
    """npu_grouped_matmul with the ends of the groups as ints."""
    return npu_grouped_matmul(x, weight, **options)


@op(
    "npu_grouped_matmul_finalize_routing(Tensor x, Tensor w, Tensor group_list, *, Tensor? scale=None, Tensor? bias=None,"
    " Tensor? offset=None, Tensor? pertoken_scale=None, Tensor? shared_input=None, Tensor? logit=None, Tensor? row_index=None,"
    " ScalarType? dtype=None, float? shared_input_weight=1.0, int? shared_input_offset=0, int? output_bs=0,"
    " int? group_list_type=1, int[]? tuning_config=None, int? x_dtype=None, int? w_dtype=None, int? scale_dtype=None,"
    " int? pertoken_scale_dtype=None) -> Tensor"
)
def npu_grouped_matmul_finalize_routing(
    x,
    w,
    group_list,
    *,
    scale=None,
    bias=None,
    offset=None,
    pertoken_scale=None,
    shared_input=None,
    logit=None,
    row_index=None,
    dtype=None,
    shared_input_weight=1.0,
    shared_input_offset=0,
    output_bs=0,
    group_list_type=1,
    tuning_config=None,
    **dtypes_of,
):
    """float32 [output_bs, n]: the int8 groups x [m, k] @ w [e, k, n], times scale [e, n] and pertoken_scale [m], times logit [m],
    added to the rows row_index [m]; plus shared_input * shared_input_weight, starting at the row shared_input_offset. output_bs
    is m by default. group_list has the numbers of rows of the groups, with group_list_type 0 their ends."""
    name = "npu_grouped_matmul_finalize_routing"
    refuse(name, bias=bias, offset=offset, **dtypes_of)
    check(dtype in (None, torch.float32), name, f"dtype is float32, not {dtype}")
    check(x.dim() == 2 and w.dim() == 3, name, f"x is [m, k] and w [e, k, n], not {list(x.shape)} and {list(w.shape)}")
    check(x.dtype == w.dtype == torch.int8, name, f"x and w are int8, not {x.dtype} and {w.dtype}")
    check(scale is not None and row_index is not None, name, "scale and row_index are needed")
    ends = _ends(group_list, group_list_type, name)
    fits = len(ends) == w.size(0) and ends[-1] <= x.size(0)
    check(fits, name, f"w has {w.size(0)} groups, and x {x.size(0)} rows, but the groups end at {ends}")
    scales = scale.reshape(w.size(0), -1).float()
    parts = [integer_matmul(x[a:b], w[i]).float() * scales[i] for i, (a, b) in enumerate(zip([0, *ends[:-1]], ends, strict=True))]
    y = torch.cat(parts)
    for factor in (pertoken_scale, logit):
        y = y if factor is None else y * factor.flatten()[: y.size(0)].float().unsqueeze(1)
    out = y.new_zeros(output_bs or x.size(0), y.size(1)).index_add(0, row_index[: y.size(0)].long(), y)
    if shared_input is None:
        return out
    last = shared_input_offset + shared_input.size(0)
    check(last <= out.size(0), name, f"shared_input ends at the row {last}, but there are {out.size(0)}")
    padding = (0, 0, shared_input_offset, out.size(0) - last)
    return out + torch.nn.functional.pad(shared_input.float() * shared_input_weight, padding)


@op(
    "npu_grouped_matmul_swiglu_quant(Tensor x, Tensor weight, Tensor group_list, Tensor weight_scale, Tensor x_scale, *,"
    " Tensor? bias=None, Tensor? offset=None) -> (Tensor, Tensor, Tensor)"
)
def npu_grouped_matmul_swiglu_quant(x, weight, group_list, weight_scale, x_scale, *, bias=None, offset=None):
    """(y, scale, empty): npu_grouped_matmul_swiglu_quant_v2 with groups that end at group_list."""
    name = "npu_grouped_matmul_swiglu_quant"
    refuse(name, bias=bias, offset=offset)
    y, scale = _swiglu_quant(name, x, weight, weight_scale, x_scale, group_list, 0)
    return y, scale, scale.new_empty(())


@op(
    "npu_grouped_matmul_swiglu_quant_v2(Tensor x, Tensor[] weight, Tensor[] weight_scale, Tensor x_scale, Tensor group_list, *,"
    " Tensor? smooth_scale=None, Tensor[]? weight_assist_matrix=None, Tensor? bias=None, int? dequant_mode=0,"
    " int? dequant_dtype=0, int? quant_mode=0, int? quant_dtype=1, int? group_list_type=0, int[]? tuning_config=None,"
    " int? x_dtype=None, int? weight_dtype=None, int? weight_scale_dtype=None, int? x_scale_dtype=None) -> (Tensor, Tensor)"
)
def npu_grouped_matmul_swiglu_quant_v2(
    x,
    weight,
    weight_scale,
    x_scale,
    group_list,
    *,
    weight_assist_matrix=None,
    dequant_mode=0,
    dequant_dtype=0,
    quant_mode=0,
    quant_dtype=1,
    group_list_type=0,
    tuning_config=None,
    **others,
):
    """(y, scale): the int8 groups x [m, k] @ weight [e, k, n], times weight_scale [e, n] and x_scale [m]; silu of the left half
    of n times the right one; quantised by npu_dynamic_quant to int8 [m, n / 2]. Rows after the last group are zeros. group_list
    has the ends of the groups, with group_list_type 1 their numbers of rows."""
    name = "npu_grouped_matmul_swiglu_quant_v2"
    refuse(name, weight_assist_matrix=weight_assist_matrix or None, **others)
    check(len(weight) == len(weight_scale) == 1, name, "weight and weight_scale are lists of one tensor")
    check(dequant_mode == quant_mode == 0, name, f"dequant_mode and quant_mode are 0, not {dequant_mode} and {quant_mode}")
    check(dtypes.of(quant_dtype) == torch.int8, name, f"quant_dtype is int8, not {dtypes.of(quant_dtype)}")
    return _swiglu_quant(name, x, weight[0], weight_scale[0], x_scale, group_list, group_list_type)


@op(
    "npu_ffn(Tensor x, Tensor weight1, Tensor weight2, str activation, *, int[]? expert_tokens=None, int[]? "
    "expert_tokens_index=None, Tensor? bias1=None, Tensor? bias2=None, Tensor? scale=None, Tensor? offset=None, Tensor? "
    "deq_scale1=None, Tensor? deq_scale2=None, Tensor? antiquant_scale1=None, Tensor? antiquant_scale2=None, Tensor? "
    "antiquant_offset1=None, Tensor? antiquant_offset2=None, int? inner_precise=None, ScalarType? output_dtype=None) -> "
    "Tensor"
)
def npu_ffn(x, weight1, weight2, activation, *, expert_tokens=None, expert_tokens_index=None, bias1=None, bias2=None,
            inner_precise=None, output_dtype=None, **quantised):  # fmt: skip
    """activation(x @ weight1 + bias1) @ weight2 + bias2. With weights [experts, k, n] it is computed per expert: expert_tokens
    has their numbers of rows, or expert_tokens_index their ends. Rows after the last expert's are zeros."""
    name = "npu_ffn"
    refuse(name, **quantised)
    check(activation in _ACTIVATIONS, name, f"activation is one of {', '.join(_ACTIVATIONS)}, not {activation}")
    act = _ACTIVATIONS[activation]
    plus = lambda y, bias: y if bias is None else y + bias.to(y.dtype)  # noqa: E731
    if expert_tokens is None and expert_tokens_index is None:
        return plus(act(plus(x @ weight1, bias1)) @ weight2, bias2)
    rows = x.flatten(0, -2)
    given = (expert_tokens_index, 0) if expert_tokens is None else (expert_tokens, 1)
    ends = _ends(*given, name)
    fits = len(ends) == weight1.size(0) and ends[-1] <= rows.size(0)
    check(fits, name, f"there are {weight1.size(0)} experts and {rows.size(0)} rows, but the experts' rows end at {ends}")
    parts = []
    for i, (start, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
        own = [None if bias is None else bias[i] for bias in (bias1, bias2)]
        parts.append(plus(act(plus(rows[start:end] @ weight1[i], own[0])) @ weight2[i], own[1]))
    y = torch.nn.functional.pad(torch.cat(parts), (0, 0, 0, rows.size(0) - ends[-1]))
    return y.unflatten(0, x.shape[:-1])


def _swiglu_quant(name, x, weight, weight_scale, x_scale, group_list, kind):
    check(x.dtype == weight.dtype == torch.int8, name, f"x and weight are int8, not {x.dtype} and {weight.dtype}")
    ends = _ends(group_list, kind, name)
    fits = len(ends) == weight.size(0) and ends[-1] <= x.size(0)
    check(fits, name, f"weight has {weight.size(0)} groups, and x {x.size(0)} rows, but the groups end at {ends}")
    starts = [0, *ends[:-1]]
    parts = [
        integer_matmul(x[a:b], weight[i]).float() * weight_scale[i].float()
        for i, (a, b) in enumerate(zip(starts, ends, strict=True))
    ]
    y = torch.cat(parts) * x_scale.flatten()[: ends[-1]].float().unsqueeze(1)
    y = torch.nn.functional.pad(_ACTIVATIONS["swiglu"](y), (0, 0, 0, x.size(0) - ends[-1]))
    return npu_dynamic_quant(y)


def _gated(act):
    return lambda y: (lambda left, right: act(left) * right)(*y.chunk(2, -1))


_ACTIVATIONS = {
    "gelu": gelu,
    "fastgelu": npu_fast_gelu,
    "relu": relu,
    "silu": silu,
    "geglu": _gated(gelu),
    "swiglu": _gated(silu),
    "reglu": _gated(relu),
}


def _ends(group_list, kind, name):
    if group_list is None:
        return None
    check(kind in (0, 1), name, f"group_list_type is 0 (ends) or 1 (sizes), not {kind}")
    numbers = group_list.tolist() if isinstance(group_list, torch.Tensor) else [int(n) for n in group_list]
    if kind == 1:
        numbers = torch.tensor(numbers).cumsum(0).tolist()
    check(len(numbers) > 0, name, "group_list is empty; it has one number for each group")
    check(numbers == sorted(numbers) and numbers[0] >= 0, name, f"the ends of groups do not fall, as {numbers} do")
    return numbers


def _of_group(given, i):
    """The i-th element of a list, or the i-th row of its single matrix."""
    if not given:
        return None
    return given[i] if len(given) > 1 or given[0].dim() == 1 else given[0][i]


def _by_columns(x, weight, ends, name):
    """[groups, m, n]: the products of the groups of x [m, k] and weight [k, n], which are split along k."""
    check(len(x) == len(weight) == 1 and ends is not None, name, "group_type 2 takes one x, one weight and a group_list")
    check(ends[-1] <= x[0].size(1), name, f"the last group ends at {ends[-1]}, but x has {x[0].size(1)} columns")
    check(x[0].size(1) == weight[0].size(0), name, f"x has {x[0].size(1)} columns, but weight {weight[0].size(0)} rows")
    starts = [0, *ends[:-1]]
    return torch.stack([x[0][:, start:end] @ weight[0][start:end] for start, end in zip(starts, ends, strict=True)])


def _product(x, weight, bias, scale, antiquant_scale, antiquant_offset, per_token, dtype):
    if antiquant_scale is not None:
        weight = weight.to(antiquant_scale.dtype) + (0 if antiquant_offset is None else antiquant_offset)
        weight = weight * antiquant_scale
    if x.dtype != torch.int8:
        y = x @ weight.to(x.dtype)
        return y if bias is None else y + bias.to(y.dtype)
    y = integer_matmul(x, weight)
    if bias is not None and not bias.is_floating_point():
        y = y + bias
    y = y if scale is None else y.float() * scale.float()
    if per_token is not None:
        y = y * per_token.unsqueeze(-1)
    if bias is not None and bias.is_floating_point():
        y = y + bias
    return y.to(dtype or torch.float16 if scale is not None else torch.int32)
