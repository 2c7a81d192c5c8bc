"""Normalisations. They are computed in float32 for half precision, and the statistics that they return are float32."""

import torch
from torch.nn.functional import group_norm, layer_norm, silu

from ._define import check, op, precise


@op("npu_rms_norm(Tensor self, Tensor gamma, float epsilon=1e-06) -> (Tensor, Tensor)")
def npu_rms_norm(self, gamma, epsilon=1e-6):
    """(y, rstd): y = x rstd gamma, with rstd = 1 / sqrt(mean(x x) + epsilon) over the dimensions of gamma."""
    return _rms_norm(self, gamma, epsilon, "npu_rms_norm")


@op("npu_gemma_rms_norm(Tensor self, Tensor gamma, float epsilon=1e-06) -> (Tensor, Tensor)")
def npu_gemma_rms_norm(self, gamma, epsilon=1e-6):
    """npu_rms_norm with the weight gamma + 1."""
    return _rms_norm(self, gamma + 1, epsilon, "npu_gemma_rms_norm")


@op("npu_add_rms_norm(Tensor x1, Tensor x2, Tensor gamma, float epsilon=1e-06) -> (Tensor, Tensor, Tensor)")
def npu_add_rms_norm(x1, x2, gamma, epsilon=1e-6):
    """(y, rstd, x): npu_rms_norm of x = x1 + x2."""
    x = x1 + x2
    y, rstd = _rms_norm(x, gamma, epsilon, "npu_add_rms_norm")
    return y, rstd, x


@op("npu_add_rms_norm_v2(Tensor(a!) x1, Tensor(b!) x2, Tensor gamma, float epsilon=1e-06) -> Tensor")
def npu_add_rms_norm_v2(x1, x2, gamma, epsilon=1e-6):
    """npu_add_rms_norm in place: returns rstd, writes y into x1 and the sum into x2."""
    y, rstd, x = npu_add_rms_norm(x1, x2, gamma, epsilon)
    x1.copy_(y)
    x2.copy_(x)
    return rstd


@op("npu_add_rms_norm_v2_functional(Tensor x1, Tensor x2, Tensor gamma, float epsilon=1e-06) -> (Tensor, Tensor, Tensor)")
def npu_add_rms_norm_v2_functional(x1, x2, gamma, epsilon=1e-6):
    """(rstd, y, x) of npu_add_rms_norm."""
    y, rstd, x = npu_add_rms_norm(x1, x2, gamma, epsilon)
    return rstd, y, x


@op("npu_add_rms_norm_cast(Tensor x1, Tensor x2, Tensor gamma, float epsilon=1e-06) -> (Tensor, Tensor, Tensor, Tensor)")
def npu_add_rms_norm_cast(x1, x2, gamma, epsilon=1e-6):
    """(y as float32, y, rstd, x): npu_add_rms_norm."""
    x = x1 + x2
    y, rstd = _rms_norm(x, gamma, epsilon, "npu_add_rms_norm_cast")
    return y.float(), y, rstd, x


@op(
    "npu_add_layer_norm(Tensor x1, Tensor x2, Tensor gamma, Tensor beta, float epsilon=1e-05, bool additional_output=False)"
    " -> (Tensor, Tensor, Tensor, Tensor)"
)
def npu_add_layer_norm(x1, x2, gamma, beta, epsilon=1e-5, additional_output=False):
    """(y, mean, rstd, x): layer norm of x = x1 + x2. x is returned for every additional_output."""
    x = x1 + x2
    y, mean, rstd = _layer_norm(x, gamma, beta, epsilon)
    return y, mean, rstd, x


@op(
    "npu_deep_norm(Tensor x, Tensor gx, Tensor beta, Tensor gamma, float alpha=0.3, float epsilon=1e-06)"
    " -> (Tensor, Tensor, Tensor)"
)
def npu_deep_norm(x, gx, beta, gamma, alpha=0.3, epsilon=1e-6):
    """(mean, rstd, y): layer norm of alpha x + gx."""
    y, mean, rstd = _layer_norm(alpha * x + gx, gamma, beta, epsilon)
    return mean, rstd, y


@op(
    "npu_group_norm_silu(Tensor input, Tensor? weight, Tensor? bias, int group, float eps=0.00001) -> (Tensor, Tensor, Tensor)",
    called=lambda input, weight, bias, group, eps=1e-05: ...,
)
def npu_group_norm_silu(input, weight, bias, group, eps=1e-5):
    """(y, mean, rstd): silu of the group norm, and the statistics of each image and group."""
    return silu(group_norm(input, group, weight, bias, eps)), *_group_statistics(input, group, eps)


@op(
    "npu_group_norm_swish(Tensor input, int num_groups, Tensor weight, Tensor bias, float? eps=1e-5, float? swish_scale=1.0)"
    " -> (Tensor, Tensor, Tensor)"
)
def npu_group_norm_swish(input, num_groups, weight, bias, eps=1e-5, swish_scale=1.0):
    """(y, mean, rstd): g sigmoid(swish_scale g) of the group norm g, and the statistics of each image and group."""
    eps = 1e-5 if eps is None else eps
    g = group_norm(input, num_groups, weight, bias, eps)
    y = g * torch.sigmoid((1.0 if swish_scale is None else swish_scale) * g)
    return y, *_group_statistics(input, num_groups, eps)


@op(
    "npu_layer_norm_eval(Tensor input, int[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1e-05) -> Tensor"
)
def npu_layer_norm_eval(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    """torch.nn.functional.layer_norm."""
    return layer_norm(input, normalized_shape, weight, bias, eps)


def _rms_norm(x, gamma, epsilon, operator):
    check(
        0 < gamma.dim() <= x.dim() and x.shape[x.dim() - gamma.dim() :] == gamma.shape,
        operator,
        f"gamma has the shape {list(gamma.shape)}, which is not how the shape {list(x.shape)} of the input ends",
    )
    wide = precise(x)
    rstd = (wide.square().mean(tuple(range(-gamma.dim(), 0)), keepdim=True) + epsilon).rsqrt()
    return (wide * rstd * precise(gamma)).to(x.dtype), rstd


def _layer_norm(x, gamma, beta, epsilon):
    wide = precise(x)
    var, mean = torch.var_mean(wide, tuple(range(-gamma.dim(), 0)), correction=0, keepdim=True)
    rstd = (var + epsilon).rsqrt()
    return ((wide - mean) * rstd * gamma + beta).to(x.dtype), mean, rstd


def _group_statistics(x, groups, eps):
    with torch.no_grad():
        var, mean = torch.var_mean(precise(x).reshape(x.size(0), groups, x.shape[1:].numel() // groups), -1, correction=0)
        return mean.to(x.dtype), (var + eps).rsqrt().to(x.dtype)
