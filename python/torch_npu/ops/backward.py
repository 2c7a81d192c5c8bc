"""Gradients as operators, for autograd functions of programs. The operators themselves are differentiable."""

import torch

from ._define import op
from .activation import npu_fast_gelu, npu_geglu, npu_gelu, npu_swiglu
from .loss import npu_softmax_cross_entropy_with_logits
from .rope import npu_rotary_mul


@op("npu_rms_norm_backward(Tensor dy, Tensor self, Tensor gamma, Tensor rstd) -> (Tensor, Tensor)")
def npu_rms_norm_backward(dy, self, gamma, rstd):
    """Gradients of npu_rms_norm for input and gamma."""
    lower = tuple(range(-gamma.dim(), 0))
    x, g, w, r = self.to(rstd.dtype), dy.to(rstd.dtype), gamma.to(rstd.dtype), rstd
    normed = x * r
    scaled = g * w
    dx = r * (scaled - normed * (scaled * normed).mean(lower, keepdim=True))
    dgamma = (g * normed).flatten(0, x.dim() - gamma.dim() - 1).sum(0) if x.dim() > gamma.dim() else g * normed
    return dx.to(self.dtype), dgamma.to(gamma.dtype)


@op("npu_swiglu_backward(Tensor grad_output, Tensor self, int dim=-1) -> Tensor")
def npu_swiglu_backward(grad_output, self, dim=-1):
    """The gradient of npu_swiglu."""
    return _gradients(lambda x: npu_swiglu(x, dim), grad_output, self)[0]


@op("npu_fast_gelu_backward(Tensor grad, Tensor self) -> Tensor")
def npu_fast_gelu_backward(grad, self):
    """The gradient of npu_fast_gelu."""
    return _gradients(npu_fast_gelu, grad, self)[0]


@op("npu_gelu_backward(Tensor grad_output, Tensor self, *, str approximate='none') -> Tensor")
def npu_gelu_backward(grad_output, self, *, approximate="none"):
    """The gradient of npu_gelu."""
    return _gradients(lambda x: npu_gelu(x, approximate=approximate), grad_output, self)[0]


@op(
    "npu_geglu_grad(Tensor grad_output, Tensor self, Tensor gelu, int dim=-1, int approximate=1, bool activate_left=False)"
    " -> Tensor"
)
def npu_geglu_grad(grad_output, self, gelu, dim=-1, approximate=1, activate_left=False):
    """The gradient of npu_geglu's first result."""
    return _gradients(lambda x: npu_geglu(x, dim, approximate, activate_left)[0], grad_output, self)[0]


@op("npu_rotary_mul_backward(Tensor grad, Tensor self, Tensor r1, Tensor r2, str rotary_mode='half') -> (Tensor, Tensor, Tensor)")
def npu_rotary_mul_backward(grad, self, r1, r2, rotary_mode="half"):
    """Gradients of npu_rotary_mul for input, r1 and r2."""
    return _gradients(lambda x, a, b: npu_rotary_mul(x, a, b, rotary_mode), grad, self, r1, r2)


@op("npu_linear_backward(Tensor grad, Tensor input, Tensor weight) -> (Tensor, Tensor)")
def npu_linear_backward(grad, input, weight):
    """Gradients of npu_linear for input and weight."""
    return grad @ weight, grad.flatten(0, -2).t() @ input.flatten(0, -2)


@op("npu_softmax_cross_entropy_with_logits_backward(Tensor grad, Tensor self, Tensor labels) -> Tensor")
def npu_softmax_cross_entropy_with_logits_backward(grad, self, labels):
    """The gradient of npu_softmax_cross_entropy_with_logits for its logits."""
    return _gradients(lambda x: npu_softmax_cross_entropy_with_logits(x, labels), grad, self)[0]


@op("npu_scaled_masked_softmax_backward(Tensor y_grad, Tensor y, Tensor mask, Scalar scale, bool fixed_triu_mask) -> Tensor")
def npu_scaled_masked_softmax_backward(y_grad, y, mask, scale, fixed_triu_mask):
    """The gradient of npu_scaled_masked_softmax, from its result y."""
    if fixed_triu_mask:
        mask = torch.ones(y.shape[-2:], dtype=torch.bool, device=y.device).triu(1)
    return (scale * y * (y_grad - (y_grad * y).sum(-1, keepdim=True))).masked_fill(mask, 0)


def _gradients(function, grad, *inputs):
    with torch.enable_grad():
        own = [tensor.detach().requires_grad_() for tensor in inputs]
        return torch.autograd.grad(function(*own), own, grad)
