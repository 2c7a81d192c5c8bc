"""Matrix products with a collective before or after. The product and the collective run one after the other; they do not overlap.

`hcom` is a name that get_hccl_comm_name() has returned. comm_turn and comm_mode have no effect, because they do not change
values."""

import torch
from torch import distributed as dist

from . import dtypes
from ._communication import AllReduce, Gather, ReduceScatter, check_modes, exchange_equal, group_of, refuse_options
from ._define import check, op, refuse
from .quant import npu_dynamic_quant, scale_of
from .quant_matmul import npu_quant_matmul, npu_weight_quant_batchmatmul


def _refuse(name, rest):
    """Raises NotImplementedError if an argument is set that would change the result and is not offered."""
    refuse_options(name, rest, "comm_turn", "comm_mode")


def _check_matrix(name, x, what="x1", most=2):
    fits = 2 <= x.dim() <= most
    check(fits, name, f"{what} must have two {'or three ' if most > 2 else ''}dimensions, not the shape {list(x.shape)}")


def _check_product(name, a, b, bias, a_scale, b_scale):
    """Checks the arguments of _product(). An operator that communicates first calls this before, so that no rank waits for a rank
    that raises an error."""
    _check_matrix(name, b, "x2")
    fits = a.dim() > 0 and a.size(-1) == b.size(0)
    check(fits, name, f"{list(a.shape)} cannot be multiplied by {list(b.shape)}")
    check(a.dtype == b.dtype, name, f"x1 and x2 must have the same dtype, not {a.dtype} and {b.dtype}")
    rows, columns = a.shape[:-1].numel(), b.size(1)
    fits = bias is None or list(bias.shape) in ([columns], [1, columns])
    given = None if bias is None else list(bias.shape)
    check(fits, name, f"bias must have {columns} numbers, one per column of x2, not the shape {given}")
    if b_scale is None:
        check(a_scale is None, name, "x1_scale needs x2_scale; give both")
        check(a.is_floating_point() and a.element_size() > 1, name, f"matrices of {a.dtype} need scales")
        return
    fits = b_scale.numel() in (1, columns)
    check(fits, name, f"x2_scale must have 1 or {columns} numbers, one per column, not the shape {list(b_scale.shape)}")
    fits = a_scale is None or a_scale.numel() in (1, rows)
    given = None if a_scale is None else list(a_scale.shape)
    check(fits, name, f"x1_scale must have 1 or {rows} numbers, one per row, not the shape {given}")


def _product(name, a, b, bias, a_scale, b_scale, dtype):
    """a @ b + bias. For quantised matrices: (a @ b + integer bias) * a_scale per row * b_scale per column + floating-point
    bias."""
    _check_product(name, a, b, bias, a_scale, b_scale)
    if b_scale is None:
        y = a @ b if bias is None else a @ b + bias.to(a.dtype)
        return y if dtype is None else y.to(dtype)
    dtype = dtype or (torch.float16 if b_scale.dtype == torch.int64 else torch.bfloat16)
    rows = None if a_scale is None else a_scale.reshape(-1).expand(a.shape[:-1].numel()).reshape(a.shape[:-1]).float()
    columns = scale_of(b_scale).reshape(-1).float()
    if a.dtype == torch.int8:
        return npu_quant_matmul(a, b, columns, pertoken_scale=rows, bias=bias, output_dtype=dtype)
    y = a.float() @ b.float() * columns
    y = y if rows is None else y * rows.unsqueeze(-1)
    return (y if bias is None else y + bias.float()).to(dtype)


def _parts(name, x, world_size, dim, what):
    fits = x.size(dim) % world_size == 0
    check(
        fits, name, f"{what} with the shape {list(x.shape)} cannot be split into {world_size} equal parts along dimension {dim}"
    )


def _check_sum(name, reduce_op):
    check(reduce_op == "sum", name, f"reduce_op must be 'sum', not {reduce_op!r}")


def _empty(x, dtype=None):
    return x.new_empty(0, dtype=dtype or x.dtype)


def _gathered_scale(scale, rows, group):
    """A scale for each gathered row; None without a scale. A rank with a single scale uses it for all its rows."""
    return None if scale is None else Gather.apply(scale.reshape(-1).expand(rows), group)


@op(
    "_npu_distribute_barrier(Tensor x_ref, str group, int world_size, *, Tensor? time_out=None, Tensor? elastic_info=None) -> "
    "Tensor"
)
def _npu_distribute_barrier(x_ref, group, world_size, *, time_out=None, elastic_info=None):
    """A copy of x_ref that is ready when all ranks have called this operator. The host does not wait."""
    name = "_npu_distribute_barrier"
    found = group_of(name, group, world_size)
    refuse(name, time_out=time_out, elastic_info=elastic_info)
    dist.all_reduce(torch.zeros(1, dtype=torch.int8, device=x_ref.device), group=found)
    return x_ref.clone()


@op(
    "npu_mm_all_reduce_base(Tensor x1, Tensor x2, str hcom, *, str reduce_op='sum', Tensor? bias=None, Tensor? "
    "antiquant_scale=None, Tensor? antiquant_offset=None, Tensor? x3=None, Tensor? dequant_scale=None, Tensor? "
    "pertoken_scale=None, Tensor? comm_quant_scale_1=None, Tensor? comm_quant_scale_2=None, int antiquant_group_size=0, "
    "int comm_turn=0, int[]? group_sizes=None, int? y_dtype=None, int? x1_dtype=None, int? x2_dtype=None, int? "
    "dequant_scale_dtype=None, int? pertoken_scale_dtype=None, int comm_quant_mode=0, str? comm_mode=None) -> Tensor",
    called=lambda x1, x2, hcom, reduce_op, bias, antiquant_scale, antiquant_offset, x3, dequant_scale, pertoken_scale,
    comm_quant_scale_1, comm_quant_scale_2, antiquant_group_size, comm_turn: ...,
)  # fmt: skip
def npu_mm_all_reduce_base(
    x1,
    x2,
    hcom,
    *,
    reduce_op="sum",
    bias=None,
    antiquant_scale=None,
    antiquant_offset=None,
    x3=None,
    dequant_scale=None,
    pertoken_scale=None,
    antiquant_group_size=0,
    y_dtype=None,
    **rest,
):
    """The sum over the group of x1 @ x2 + bias + x3. With antiquant_scale, x2 is dequantised first, see
    npu_weight_quant_batchmatmul. With dequant_scale, the product is computed as in npu_quant_matmul."""
    name = "npu_mm_all_reduce_base"
    group = group_of(name, hcom)
    _check_sum(name, reduce_op)
    _refuse(name, rest)
    _check_matrix(name, x1, most=3)
    check(pertoken_scale is None or dequant_scale is not None, name, "pertoken_scale needs dequant_scale")
    alone = antiquant_offset is None and antiquant_group_size == 0
    check(alone or antiquant_scale is not None, name, "antiquant_offset and antiquant_group_size need antiquant_scale")
    check(antiquant_scale is None or dequant_scale is None, name, "x2 can have antiquant_scale or dequant_scale, not both")
    if antiquant_scale is not None:
        kind = dtypes.of(y_dtype, x1.dtype)
        check(kind == x1.dtype, name, f"with antiquant_scale, y_dtype must be the dtype of x1, {x1.dtype}, not {kind}")
        y = npu_weight_quant_batchmatmul(
            x1,
            x2,
            antiquant_scale,
            antiquant_offset=antiquant_offset,
            bias=bias,
            antiquant_group_size=antiquant_group_size,
        )
    elif dequant_scale is not None:
        narrow = torch.bfloat16 if dequant_scale.dtype == torch.bfloat16 else torch.float16
        if dequant_scale.dtype == torch.float32 and bias is not None and bias.dtype == torch.bfloat16:
            narrow = torch.bfloat16
        y = _product(name, x1, x2, bias, pertoken_scale, dequant_scale, dtypes.of(y_dtype, narrow))
    else:
        y = _product(name, x1, x2, bias, None, None, dtypes.of(y_dtype))
    if x3 is not None:
        fits = x3.shape == y.shape and x3.dtype == y.dtype
        check(fits, name, f"x3 must be {y.dtype} {list(y.shape)}, like the result, not {x3.dtype} {list(x3.shape)}")
        y = y + x3
    return AllReduce.apply(y, group)


def _product_then_scatter(name, a, b, hcom, world_size, reduce_op, bias, a_scale, b_scale, dtype, rest):
    group = group_of(name, hcom, world_size)
    _check_sum(name, reduce_op)
    _refuse(name, rest)
    _check_matrix(name, a, "self")
    _parts(name, a, world_size, 0, "self")
    return ReduceScatter.apply(_product(name, a, b, bias, a_scale, b_scale, dtype), group)


@op(
    "npu_mm_reduce_scatter_base(Tensor self, Tensor x2, str hcom, int world_size, *, str reduce_op='sum', Tensor? "
    "bias=None, Tensor? x1_scale=None, Tensor? x2_scale=None, int comm_turn=0, ScalarType? output_dtype=None, str? "
    "comm_mode=None) -> Tensor",
)
def npu_mm_reduce_scatter_base(
    self, x2, hcom, world_size, *, reduce_op="sum", bias=None, x1_scale=None, x2_scale=None, output_dtype=None, **rest
):
    """This rank's equal part of the rows of the sum over the group of self @ x2 + bias."""
    name = "npu_mm_reduce_scatter_base"
    return _product_then_scatter(name, self, x2, hcom, world_size, reduce_op, bias, x1_scale, x2_scale, output_dtype, rest)


@op(
    "npu_quant_mm_reduce_scatter(Tensor self, Tensor x2, str hcom, int world_size, *, str reduce_op='sum', Tensor? "
    "bias=None, Tensor? x1_scale=None, Tensor? x2_scale=None, Tensor? quant_scale=None, int block_size=0, int "
    "comm_turn=0, int[]? group_sizes=None, bool amax_output=False, int? y_dtype=None, int? x1_dtype=None, int? "
    "x2_dtype=None, int? x1_scale_dtype=None, int? x2_scale_dtype=None, str? comm_mode=None) -> (Tensor, Tensor)",
)
def npu_quant_mm_reduce_scatter(
    self, x2, hcom, world_size, *, reduce_op="sum", bias=None, x1_scale=None, x2_scale=None, y_dtype=None, **rest
):
    """(y, amax): npu_mm_reduce_scatter_base of quantised matrices. amax is empty."""
    name = "npu_quant_mm_reduce_scatter"
    dtype = dtypes.of(y_dtype)
    y = _product_then_scatter(name, self, x2, hcom, world_size, reduce_op, bias, x1_scale, x2_scale, dtype, rest)
    return y, _empty(y, torch.float32)


def _gather_then_product(name, a, b, hcom, world_size, bias, a_scale, b_scale, gather_index, keeps_gathered, dtype, rest):
    """(y, gathered)."""
    group = group_of(name, hcom, world_size)
    _refuse(name, rest)
    check(gather_index == 0, name, f"gather_index must be 0 (self), not {gather_index}")
    _check_matrix(name, a, "self")
    _check_product(name, a, b, bias, a_scale, b_scale)
    gathered = Gather.apply(a, group)
    y = _product(name, gathered, b, bias, _gathered_scale(a_scale, a.size(0), group), b_scale, dtype)
    return y, gathered if keeps_gathered else _empty(gathered)


@op(
    "npu_all_gather_base_mm(Tensor self, Tensor x2, str hcom, int world_size, *, Tensor? bias=None, Tensor? "
    "x1_scale=None, Tensor? x2_scale=None, int gather_index=0, bool gather_output=True, int comm_turn=0, ScalarType? "
    "output_dtype=None, str? comm_mode=None) -> (Tensor, Tensor)",
)
def npu_all_gather_base_mm(
    self,
    x2,
    hcom,
    world_size,
    *,
    bias=None,
    x1_scale=None,
    x2_scale=None,
    gather_index=0,
    gather_output=True,
    output_dtype=None,
    **rest,
):
    """(gathered @ x2 + bias, gathered). gathered has the rows of self of all ranks. It is empty if gather_output is False."""
    scales = (x1_scale, x2_scale)
    gather = (gather_index, gather_output)
    return _gather_then_product("npu_all_gather_base_mm", self, x2, hcom, world_size, bias, *scales, *gather, output_dtype, rest)


@op(
    "npu_all_gather_quant_mm(Tensor self, Tensor x2, str hcom, int world_size, *, Tensor? bias=None, Tensor? "
    "x1_scale=None, Tensor? x2_scale=None, Tensor? quant_scale=None, int block_size=0, int gather_index=0, bool "
    "gather_output=True, int comm_turn=0, int[]? group_sizes=None, bool amax_output=False, int? y_dtype=None, int? "
    "x1_dtype=None, int? x2_dtype=None, int? x1_scale_dtype=None, int? x2_scale_dtype=None, str? comm_mode=None) -> "
    "(Tensor, Tensor, Tensor)",
)
def npu_all_gather_quant_mm(
    self,
    x2,
    hcom,
    world_size,
    *,
    bias=None,
    x1_scale=None,
    x2_scale=None,
    gather_index=0,
    gather_output=True,
    y_dtype=None,
    **rest,
):
    """(y, gathered, amax): npu_all_gather_base_mm of quantised matrices. amax is empty."""
    scales = (x1_scale, x2_scale)
    gather = (gather_index, gather_output)
    y, gathered = _gather_then_product(
        "npu_all_gather_quant_mm", self, x2, hcom, world_size, bias, *scales, *gather, dtypes.of(y_dtype), rest
    )
    return y, gathered, _empty(y, torch.float32)


def _check_exchanged(name, x1, x2, world_size):
    _check_matrix(name, x1)
    _check_matrix(name, x2, "x2")
    check(x1.size(1) * world_size == x2.size(0), name, f"x2 must have {world_size} * {x1.size(1)} rows, not {x2.size(0)}")


def _exchanged_rows(name, x, group, world_size, axes):
    """[m / world, world * k]: row i consists of the rows i of the parts that all ranks have sent."""
    check(list(axes or (-2, -1)) == [-2, -1], name, f"all2all_axes must be [-2, -1], not {axes}")
    _parts(name, x, world_size, 0, "x1")
    return exchange_equal(x, group).unflatten(0, (world_size, -1)).transpose(0, 1).flatten(1)


def _exchange_columns(name, y, group, world_size, axes):
    """[m * world, n / world]: this rank's part of the columns of all ranks."""
    check(list(axes or (-1, -2)) == [-1, -2], name, f"all2all_axes must be [-1, -2], not {axes}")
    _parts(name, y, world_size, 1, "the product")
    return exchange_equal(y.unflatten(1, (world_size, -1)).transpose(0, 1).flatten(0, 1), group)


@op(
    "npu_all_to_all_matmul(Tensor x1, Tensor x2, str hcom, int world_size, Tensor? bias=None, int[]? all2all_axes=None, "
    "bool all2all_out_flag=True, str? comm_mode=None) -> (Tensor, Tensor)",
)
def npu_all_to_all_matmul(x1, x2, hcom, world_size, bias=None, all2all_axes=None, all2all_out_flag=True, **rest):
    """(y, exchanged): y = exchanged @ x2 + bias. Each rank sends equal parts of the rows of x1 [m, k]. exchanged is
    [m / world_size, world_size * k]; it is empty if all2all_out_flag is False."""
    name = "npu_all_to_all_matmul"
    group = group_of(name, hcom, world_size)
    _refuse(name, rest)
    _check_exchanged(name, x1, x2, world_size)
    exchanged = _exchanged_rows(name, x1, group, world_size, all2all_axes)
    return _product(name, exchanged, x2, bias, None, None, None), exchanged if all2all_out_flag else _empty(exchanged)


@op(
    "npu_all_to_all_quant_matmul(Tensor x1, Tensor x2, str hcom, int world_size, *, bool all2all_out_flag=True, Tensor? "
    "bias=None, Tensor? x1_scale=None, Tensor? x2_scale=None, Tensor? common_scale=None, Tensor? x1_offset=None, Tensor? "
    "x2_offset=None, int? x1_quant_mode=None, int? x2_quant_mode=None, int? common_quant_mode=None, int[]? "
    "group_sizes=None, int[]? all2all_axes=None, int? comm_quant_dtype=None, int? x1_quant_dtype=None, int? "
    "x1_dtype=None, int? x2_dtype=None, int? x1_scale_dtype=None, int? x2_scale_dtype=None, int? "
    "output_scale_dtype=None, int? comm_scale_dtype=None, int? y_dtype=None, str? comm_mode=None) -> (Tensor, Tensor)",
)
def npu_all_to_all_quant_matmul(
    x1, x2, hcom, world_size, *, all2all_out_flag=True, bias=None, x2_scale=None, all2all_axes=None, y_dtype=None, **rest
):
    """npu_all_to_all_matmul of quantised matrices. x1 is float16 or bfloat16 and is quantised per row after the exchange. x2 is
    int8
    with x2_scale per column."""
    name = "npu_all_to_all_quant_matmul"
    group = group_of(name, hcom, world_size)
    check_modes(name, rest, x1_quant_mode=7, x2_quant_mode=2)  # x1 is quantised per row, and x2 per column
    kind = dtypes.of(rest.pop("x1_quant_dtype", None), torch.int8)
    check(kind == torch.int8, name, f"x1_quant_dtype must be int8, not {kind}")
    _refuse(name, rest)
    check(x1.dtype in (torch.float16, torch.bfloat16), name, f"x1 must be float16 or bfloat16, not {x1.dtype}")
    check(x2.dtype == torch.int8 and x2_scale is not None, name, f"x2 must be int8 and have x2_scale, but is {x2.dtype}")
    _check_exchanged(name, x1, x2, world_size)
    exchanged = _exchanged_rows(name, x1, group, world_size, all2all_axes)
    quantised, scale = npu_dynamic_quant(exchanged)
    y = _product(name, quantised, x2, bias, scale, x2_scale, dtypes.of(y_dtype, x1.dtype))
    return y, exchanged if all2all_out_flag else _empty(exchanged)


@op(
    "npu_matmul_all_to_all(Tensor x1, Tensor x2, str hcom, int world_size, Tensor? bias=None, int[]? all2all_axes=None, "
    "str? comm_mode=None) -> Tensor",
)
def npu_matmul_all_to_all(x1, x2, hcom, world_size, bias=None, all2all_axes=None, **rest):
    """[m * world_size, n / world_size]: this rank's part of the columns of the products x1 [m, k] @ x2 [k, n] + bias of all
    ranks."""
    name = "npu_matmul_all_to_all"
    group = group_of(name, hcom, world_size)
    _refuse(name, rest)
    _check_matrix(name, x1)
    return _exchange_columns(name, _product(name, x1, x2, bias, None, None, None), group, world_size, all2all_axes)


@op(
    "npu_quant_matmul_all_to_all(Tensor x1, Tensor x2, str hcom, int world_size, Tensor? bias=None, Tensor? "
    "x1_scale=None, Tensor? x2_scale=None, Tensor? common_scale=None, Tensor? x1_offset=None, Tensor? x2_offset=None, "
    "int? x1_quant_mode=None, int? x2_quant_mode=None, int? common_quant_mode=None, int[]? group_sizes=None, int[]? "
    "all2all_axes=None, int? comm_quant_dtype=None, int? x1_dtype=None, int? x2_dtype=None, int? x1_scale_dtype=None, "
    "int? x2_scale_dtype=None, int? output_scale_dtype=None, int? comm_scale_dtype=None, int? y_dtype=None, str? "
    "comm_mode=None) -> Tensor",
)
def npu_quant_matmul_all_to_all(
    x1, x2, hcom, world_size, bias=None, x1_scale=None, x2_scale=None, *, all2all_axes=None, y_dtype=None, **rest
):
    """npu_matmul_all_to_all of quantised matrices with x1_scale per row and x2_scale per column."""
    name = "npu_quant_matmul_all_to_all"
    group = group_of(name, hcom, world_size)
    check_modes(name, rest, x1_quant_mode=3, x2_quant_mode=2)
    _refuse(name, rest)
    _check_matrix(name, x1)
    check(x2_scale is not None, name, "x2_scale is needed")
    y = _product(name, x1, x2, bias, x1_scale, x2_scale, dtypes.of(y_dtype))
    return _exchange_columns(name, y, group, world_size, all2all_axes)
