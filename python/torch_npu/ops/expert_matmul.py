"""Matrix products of experts on several ranks. Rows are sent to the ranks of their experts, or the products are sent back.

`hcom` is a name that get_hccl_comm_name() has returned.
"""

import torch

from .. import _hifloat8 as hifloat8
from . import dtypes
from ._communication import Exchange, blocks_in_order, check_modes, group_of, refuse_options, select_rows
from ._define import check, op

_TOGETHER = "mm_x and mm_weight must be given together"


def _counts(name, given, world, experts, what, rows=None):
    """A list of numbers of rows as a table [world][experts]."""
    check(len(given) == world * experts, name, f"{what} must have {world} ranks * {experts} experts, not {len(given)} numbers")
    check(min(given) >= 0, name, f"{what} must not have negative numbers, but is {list(given)}")
    check(rows in (None, sum(given)), name, f"the sum of {what} is {sum(given)}, but gmm_x has {rows} rows")
    return [list(given[rank * experts : (rank + 1) * experts]) for rank in range(world)]


def _grouped(x, weight, counts, dtype):
    """Multiplies the rows of x, sorted by experts, by the weights of their experts [e, k, n]."""
    sizes = [sum(column) for column in zip(*counts, strict=True)]
    return torch.cat([part @ weight[i] for i, part in enumerate(x.split(sizes))]).to(dtype)


def _shared(name, x, weight, transposed, dtype, like):
    if x is None and weight is None:
        return like.new_empty(0)
    check(x is not None and weight is not None, name, _TOGETHER)
    weight = weight.mT if transposed else weight
    check(x.size(-1) == weight.size(0), name, f"mm_x {list(x.shape)} cannot be multiplied by mm_weight {list(weight.shape)}")
    return (x @ weight).to(dtype)


def _check_experts(name, x, weight):
    fits = x.dim() == 2 and weight.dim() == 3 and x.size(1) == weight.size(1)
    check(fits, name, f"gmm_x must be [rows, k] and gmm_weight [e, k, n], not {list(x.shape)} and {list(weight.shape)}")
    check(weight.size(0) > 0, name, f"gmm_weight must have at least one expert, not the shape {list(weight.shape)}")


def _check_types(name, x, weight):
    check(x.dtype == weight.dtype, name, f"gmm_x and gmm_weight must have the same dtype, not {x.dtype} and {weight.dtype}")
    check(x.is_floating_point() and x.element_size() > 1, name, f"gmm_x must be float16, bfloat16 or float32, not {x.dtype}")


def _exchange_then_multiply(name, x, weight, group, world, send_counts, recv_counts, dtype, decode=lambda rows: rows):
    """(y, permuted). The rows are sent without decoding. They are decoded before the product."""
    _check_experts(name, x, weight)
    sent = _counts(name, send_counts, world, weight.size(0), "send_counts", x.size(0))
    received = _counts(name, recv_counts, world, weight.size(0), "recv_counts")
    plain = x if x.element_size() > 1 else x.view(torch.uint8)  # as bytes, because collectives have no float8
    rows = Exchange.apply(plain, group, [sum(line) for line in sent], [sum(line) for line in received])
    permuted = select_rows(rows, blocks_in_order(received, True)).view(x.dtype)
    return _grouped(decode(permuted), weight, received, dtype), permuted


def _multiply_then_exchange(name, x, weight, group, world, send_counts, recv_counts, dtype):
    _check_experts(name, x, weight)
    sent = _counts(name, send_counts, world, weight.size(0), "send_counts", x.size(0))
    received = _counts(name, recv_counts, world, weight.size(0), "recv_counts")
    rows = select_rows(_grouped(x, weight, sent, dtype), blocks_in_order(sent, False))
    return Exchange.apply(rows, group, [sum(line) for line in sent], [sum(line) for line in received])


def _check_quantised(name, x, scale, number, what):
    """Checks that scale has one number, and that x is float8 or int8. If `number` is hifloat8, x has codes of hifloat8."""
    check(scale is not None and scale.numel() == 1, name, f"{what}_scale must have one number")
    kind = dtypes.of(number, x.dtype)
    if kind == dtypes.HIFLOAT8:
        return
    check(kind == x.dtype, name, f"{what} is {x.dtype}, but {what}_dtype is {kind}")
    fits = x.dtype == torch.int8 or (x.is_floating_point() and x.element_size() == 1)
    check(fits, name, f"{what} must be float8 or int8, or have {what}_dtype=torch_npu.hifloat8; it is {x.dtype}")


def _dequantised(name, x, scale, number, what):
    """x * scale in float32."""
    _check_quantised(name, x, scale, number, what)
    plain = hifloat8.decode(x) if dtypes.of(number) == dtypes.HIFLOAT8 else x.float()
    return plain * scale.float()


def _quantised_weight_and_mm_y(name, rest, gmm_weight, mm_x, mm_weight, dtype, mm_dtype):
    """(dequantised gmm_weight, mm_y or None). A matrix is (tensor, scale, number of its data type)."""
    check_modes(name, rest, gmm_x_quant_mode=1, gmm_weight_quant_mode=1, mm_x_quant_mode=1, mm_weight_quant_mode=1)
    refuse_options(name, rest, "comm_mode")
    check((mm_x[0] is None) == (mm_weight[0] is None), name, _TOGETHER)
    weight = _dequantised(name, *gmm_weight, "gmm_weight")
    if mm_x[0] is None:
        return weight, weight.new_empty(0, dtype=dtype)
    left = _dequantised(name, *mm_x, "mm_x")
    right = _dequantised(name, *mm_weight, "mm_weight")
    return weight, _shared(name, left, right, False, mm_dtype, left)


@op(
    "npu_alltoallv_gmm(Tensor gmm_x, Tensor gmm_weight, str hcom, int ep_world_size, int[] send_counts, int[] "
    "recv_counts, *, Tensor? send_counts_tensor=None, Tensor? recv_counts_tensor=None, Tensor? mm_x=None, Tensor? "
    "mm_weight=None, bool trans_gmm_weight=False, bool trans_mm_weight=False, bool permute_out_flag=False, str? "
    "comm_mode=None) -> (Tensor, Tensor, Tensor)",
)
def npu_alltoallv_gmm(
    gmm_x,
    gmm_weight,
    hcom,
    ep_world_size,
    send_counts,
    recv_counts,
    *,
    mm_x=None,
    mm_weight=None,
    trans_gmm_weight=False,
    trans_mm_weight=False,
    permute_out_flag=False,
    **rest,
):
    """(gmm_y, mm_y, permuted). Rank r gets send_counts[r * e + i] rows of gmm_x for its expert i. The received rows, sorted by
    experts, are multiplied by gmm_weight [e, k, n]. mm_y is mm_x @ mm_weight, or empty without mm_x. permuted has the received
    rows, or is empty if permute_out_flag is False."""
    name = "npu_alltoallv_gmm"
    group = group_of(name, hcom, ep_world_size)
    refuse_options(name, rest, "comm_mode")
    _check_types(name, gmm_x, gmm_weight)
    weight = gmm_weight.mT if trans_gmm_weight else gmm_weight
    counts = (send_counts, recv_counts)
    y, permuted = _exchange_then_multiply(name, gmm_x, weight, group, ep_world_size, *counts, gmm_x.dtype)
    mm_y = _shared(name, mm_x, mm_weight, trans_mm_weight, gmm_x.dtype, gmm_x)
    return y, mm_y, permuted if permute_out_flag else permuted.new_empty(0)


@op(
    "npu_gmm_alltoallv(Tensor gmm_x, Tensor gmm_weight, str hcom, int ep_world_size, int[] send_counts, int[] "
    "recv_counts, *, Tensor? send_counts_tensor=None, Tensor? recv_counts_tensor=None, Tensor? mm_x=None, Tensor? "
    "mm_weight=None, bool trans_gmm_weight=False, bool trans_mm_weight=False, str? comm_mode=None) -> (Tensor, Tensor)",
)
def npu_gmm_alltoallv(
    gmm_x,
    gmm_weight,
    hcom,
    ep_world_size,
    send_counts,
    recv_counts,
    *,
    mm_x=None,
    mm_weight=None,
    trans_gmm_weight=False,
    trans_mm_weight=False,
    **rest,
):
    """(y, mm_y). The rows of gmm_x, sorted by experts and then by ranks, are multiplied by gmm_weight [e, k, n], and
    send_counts[r * e + i] rows of expert i are sent back to rank r. mm_y is mm_x @ mm_weight, or empty without mm_x."""
    name = "npu_gmm_alltoallv"
    group = group_of(name, hcom, ep_world_size)
    refuse_options(name, rest, "comm_mode")
    _check_types(name, gmm_x, gmm_weight)
    weight = gmm_weight.mT if trans_gmm_weight else gmm_weight
    y = _multiply_then_exchange(name, gmm_x, weight, group, ep_world_size, send_counts, recv_counts, gmm_x.dtype)
    return y, _shared(name, mm_x, mm_weight, trans_mm_weight, gmm_x.dtype, gmm_x)


@op(
    "npu_alltoallv_quant_gmm(Tensor gmm_x, Tensor gmm_weight, Tensor gmm_x_scale, Tensor gmm_weight_scale, str hcom, int "
    "ep_world_size, int[] send_counts, int[] recv_counts, int gmm_y_dtype, *, Tensor? send_counts_tensor=None, Tensor? "
    "recv_counts_tensor=None, Tensor? mm_x=None, Tensor? mm_weight=None, Tensor? mm_x_scale=None, Tensor? "
    "mm_weight_scale=None, int? gmm_x_quant_mode=None, int? gmm_weight_quant_mode=None, int? mm_x_quant_mode=None, int? "
    "mm_weight_quant_mode=None, bool permute_out_flag=False, int[]? group_size=None, int? gmm_x_dtype=None, int? "
    "gmm_weight_dtype=None, int? gmm_x_scale_dtype=None, int? gmm_weight_scale_dtype=None, int? mm_x_dtype=None, int? "
    "mm_weight_dtype=None, int? mm_x_scale_dtype=None, int? mm_weight_scale_dtype=None, int? mm_y_dtype=None, str? "
    "comm_mode=None) -> (Tensor, Tensor, Tensor)",
)
def npu_alltoallv_quant_gmm(
    gmm_x,
    gmm_weight,
    gmm_x_scale,
    gmm_weight_scale,
    hcom,
    ep_world_size,
    send_counts,
    recv_counts,
    gmm_y_dtype,
    *,
    mm_x=None,
    mm_weight=None,
    mm_x_scale=None,
    mm_weight_scale=None,
    permute_out_flag=False,
    gmm_x_dtype=None,
    gmm_weight_dtype=None,
    mm_x_dtype=None,
    mm_weight_dtype=None,
    mm_y_dtype=None,
    **rest,
):
    """npu_alltoallv_gmm of float8, hifloat8 or int8 matrices with one scale each."""
    name = "npu_alltoallv_quant_gmm"
    group = group_of(name, hcom, ep_world_size)
    dtype, counts = dtypes.of(gmm_y_dtype), (send_counts, recv_counts)
    weight, mm_y = _quantised_weight_and_mm_y(
        name,
        rest,
        (gmm_weight, gmm_weight_scale, gmm_weight_dtype),
        (mm_x, mm_x_scale, mm_x_dtype),
        (mm_weight, mm_weight_scale, mm_weight_dtype),
        dtype,
        dtypes.of(mm_y_dtype, dtype),
    )
    _check_quantised(name, gmm_x, gmm_x_scale, gmm_x_dtype, "gmm_x")  # before the ranks communicate

    def decode(rows):
        return _dequantised(name, rows, gmm_x_scale, gmm_x_dtype, "gmm_x")

    y, permuted = _exchange_then_multiply(name, gmm_x, weight, group, ep_world_size, *counts, dtype, decode)
    return y, mm_y, permuted if permute_out_flag else gmm_x.new_empty(0)


@op(
    "npu_quant_gmm_alltoallv(Tensor gmm_x, Tensor gmm_weight, Tensor gmm_x_scale, Tensor gmm_weight_scale, str hcom, int "
    "ep_world_size, int[] send_counts, int[] recv_counts, int gmm_y_dtype, *, Tensor? send_counts_tensor=None, Tensor? "
    "recv_counts_tensor=None, Tensor? mm_x=None, Tensor? mm_weight=None, Tensor? mm_x_scale=None, Tensor? "
    "mm_weight_scale=None, Tensor? comm_quant_scale=None, int? gmm_x_quant_mode=None, int? gmm_weight_quant_mode=None, "
    "int? mm_x_quant_mode=None, int? mm_weight_quant_mode=None, int? comm_quant_mode=None, int[]? group_size=None, int? "
    "gmm_x_dtype=None, int? gmm_weight_dtype=None, int? gmm_x_scale_dtype=None, int? gmm_weight_scale_dtype=None, int? "
    "mm_x_dtype=None, int? mm_weight_dtype=None, int? mm_x_scale_dtype=None, int? mm_weight_scale_dtype=None, int? "
    "comm_quant_dtype=None, int? mm_y_dtype=None, str? comm_mode=None) -> (Tensor, Tensor)",
)
def npu_quant_gmm_alltoallv(
    gmm_x,
    gmm_weight,
    gmm_x_scale,
    gmm_weight_scale,
    hcom,
    ep_world_size,
    send_counts,
    recv_counts,
    gmm_y_dtype,
    *,
    mm_x=None,
    mm_weight=None,
    mm_x_scale=None,
    mm_weight_scale=None,
    gmm_x_dtype=None,
    gmm_weight_dtype=None,
    mm_x_dtype=None,
    mm_weight_dtype=None,
    mm_y_dtype=None,
    **rest,
):
    """npu_gmm_alltoallv of float8, hifloat8 or int8 matrices with one scale each."""
    name = "npu_quant_gmm_alltoallv"
    group = group_of(name, hcom, ep_world_size)
    dtype, counts = dtypes.of(gmm_y_dtype), (send_counts, recv_counts)
    weight, mm_y = _quantised_weight_and_mm_y(
        name,
        rest,
        (gmm_weight, gmm_weight_scale, gmm_weight_dtype),
        (mm_x, mm_x_scale, mm_x_dtype),
        (mm_weight, mm_weight_scale, mm_weight_dtype),
        dtype,
        dtypes.of(mm_y_dtype, dtype),
    )
    x = _dequantised(name, gmm_x, gmm_x_scale, gmm_x_dtype, "gmm_x")
    return _multiply_then_exchange(name, x, weight, group, ep_world_size, *counts, dtype), mm_y
