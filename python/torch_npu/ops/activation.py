"""Activations and gated linear units."""

import torch
from torch.nn.functional import gelu, mish, silu

from ._define import check, op


@op("npu_fast_gelu(Tensor self) -> Tensor")
def npu_fast_gelu(self):
    """x / (1 + exp(-1.702 x))."""
    return self * torch.sigmoid(1.702 * self)


op("fast_gelu(Tensor self) -> Tensor")(npu_fast_gelu)


@op("npu_gelu(Tensor self, *, str approximate='none') -> Tensor", called=lambda x, approximate="none": ...)
def npu_gelu(self, *, approximate="none"):
    """torch.nn.functional.gelu."""
    return gelu(self, approximate=approximate)


@op("npu_gelu_mul(Tensor input, *, str approximate='none') -> Tensor")
def npu_gelu_mul(input, *, approximate="none"):
    """gelu of the left half of the last dimension, times the right half."""
    left, right = _halves(input, -1, "npu_gelu_mul")
    return gelu(left, approximate=approximate) * right


@op("npu_geglu(Tensor self, int dim=-1, int approximate=1, bool activate_left=False) -> (Tensor, Tensor)")
def npu_geglu(self, dim=-1, approximate=1, activate_left=False):
    """(y, gelu): gelu of one half along dim (approximate=1: tanh, 0: exact), and its product y with the other half."""
    check(approximate in (0, 1), "npu_geglu", f"approximate is 0 (exact) or 1 (tanh), not {approximate}")
    left, right = _halves(self, dim, "npu_geglu")
    activated, other = (left, right) if activate_left else (right, left)
    activated = gelu(activated, approximate="tanh" if approximate else "none")
    return activated * other, activated


@op("npu_swiglu(Tensor self, int dim=-1) -> Tensor")
def npu_swiglu(self, dim=-1):
    """silu of the left half along dim, times the right half."""
    left, right = _halves(self, dim, "npu_swiglu")
    return silu(left) * right


@op(
    "npu_clipped_swiglu(Tensor x, *, Tensor? group_index=None, int dim=-1, float alpha=1.702, float limit=7.0, float bias=1.0,"
    " bool interleaved=True) -> Tensor"
)
def npu_clipped_swiglu(x, *, group_index=None, dim=-1, alpha=1.702, limit=7.0, bias=1.0, interleaved=True):
    """a sigmoid(alpha a) (b + bias), where a is clamped to at most limit and b to [-limit, limit]. With group_index, rows after
    the last group are zero."""
    size = x.size(dim)
    check(size % 2 == 0, "npu_clipped_swiglu", f"dimension {dim} has {size} elements, which is odd")
    if interleaved:
        a, b = x.unflatten(dim, (size // 2, 2)).unbind(dim if dim < 0 else dim + 1)
    else:
        a, b = x.chunk(2, dim)
    a, b = a.clamp(max=limit), b.clamp(-limit, limit)
    y = a * torch.sigmoid(alpha * a) * (b + bias)
    if group_index is None:
        return y
    rows = torch.arange(y.size(0), device=y.device)
    return torch.where((rows < group_index.sum()).view(-1, *[1] * (y.dim() - 1)), y, 0)


@op("npu_mish(Tensor self) -> Tensor")
def npu_mish(self):
    """torch.nn.functional.mish."""
    return mish(self)


@op("npu_silu(Tensor self) -> Tensor")
def npu_silu(self):
    """torch.nn.functional.silu."""
    return silu(self)


@op("npu_silu_(Tensor(a!) self) -> Tensor(a!)")
def npu_silu_(self):
    """npu_silu in place."""
    return silu(self, inplace=True)


def _halves(x, dim, operator):
    check(x.dim() > 0 and x.size(dim) % 2 == 0, operator, f"dimension {dim} of shape {list(x.shape)} cannot be halved")
    return x.chunk(2, dim)
