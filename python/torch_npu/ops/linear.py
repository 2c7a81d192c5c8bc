"""Products of matrices."""

import torch

from ._define import check, function, op


@op("npu_linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor", called=lambda input_, weight, bias=None: ...)
def npu_linear(input, weight, bias=None):
    """torch.nn.functional.linear."""
    return torch.nn.functional.linear(input, weight, bias)


@op("npu_bmmV2(Tensor self, Tensor mat2, int[] output_sizes) -> Tensor")
def npu_bmmV2(self, mat2, output_sizes):
    """torch.matmul, summed over the dimensions in which output_sizes, if there are any, are 1."""
    product = torch.matmul(self, mat2)
    return product.sum_to_size(output_sizes) if output_sizes else product


@op(
    "npu_transpose_batchmatmul(Tensor input, Tensor weight, *, Tensor? bias=None, Tensor? scale=None, int[]? perm_x1=None,"
    " int[]? perm_x2=None, int[]? perm_y=None, int? batch_split_factor=1) -> Tensor"
)
def npu_transpose_batchmatmul(
    input, weight, *, bias=None, scale=None, perm_x1=None, perm_x2=None, perm_y=None, batch_split_factor=1
):
    """The permuted product of the permuted input and weight, [batch, m, k] and [batch, k, n]; perm_y is (1, 0, 2) unless given.
    batch_split_factor f makes [f, m, batch * n / f] of [m, batch, n]."""
    name = "npu_transpose_batchmatmul"
    check(bias is None and scale is None, name, "bias and scale are not offered; add and multiply after it")
    for argument, perm in (("perm_x1", perm_x1), ("perm_x2", perm_x2), ("perm_y", perm_y)):
        check(perm is None or sorted(perm) == [0, 1, 2], name, f"{argument} orders 0, 1, 2, but is {perm}")
    y = input.permute(perm_x1 or (0, 1, 2)) @ weight.permute(perm_x2 or (0, 1, 2))
    y = y.permute(perm_y or (1, 0, 2))
    if batch_split_factor in (None, 1):
        return y
    return y.reshape(y.size(0), batch_split_factor, -1).transpose(0, 1)


@op(
    "npu_fused_matmul(Tensor x1, Tensor x2, *, Tensor? bias=None, Tensor? x3=None, str fused_op_type='') -> Tensor",
)
def npu_fused_matmul(x1, x2, *, bias=None, x3=None, fused_op_type=""):
    """x1 @ x2 + bias; then plus x3 (fused_op_type add), times x3 (mul), or its gelu (gelu_erf, gelu_tanh)."""
    name = "npu_fused_matmul"
    kinds = ("", "add", "mul", "gelu_erf", "gelu_tanh")
    check(fused_op_type in kinds, name, f"fused_op_type is one of {', '.join(kinds[1:])}, or empty, not {fused_op_type}")
    check((x3 is not None) == (fused_op_type in ("add", "mul")), name, "x3 goes with the fused_op_type add or mul")
    y = x1 @ x2 if bias is None else x1 @ x2 + bias
    if fused_op_type in ("add", "mul"):
        return y + x3 if fused_op_type == "add" else y * x3
    if not fused_op_type:
        return y
    return torch.nn.functional.gelu(y, approximate="tanh" if fused_op_type == "gelu_tanh" else "none")


@function
def matmul_checksum(a, b, c):
    """bool tensor: True if c differs from a @ b. The row sums are compared, with a tolerance for the rounding of the dtypes."""
    check(a.dim() == b.dim() == c.dim() == 2, "matmul_checksum", "a, b and c are matrices")
    a, b, c = a.detach(), b.detach(), c.detach()
    unit = torch.finfo(c.dtype).eps
    wide = torch.float32 if c.dtype in (torch.float16, torch.bfloat16) else torch.float64
    a, b, c = a.to(wide), b.to(wide), c.to(wide)
    off = (c.sum(1) - a @ b.sum(1)).abs()
    allowed = unit * (a.abs() @ b.abs().sum(1)) * max(b.shape) ** 0.5
    return (~(off <= allowed)).any()
