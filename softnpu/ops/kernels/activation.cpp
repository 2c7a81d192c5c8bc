#include <ATen/ops/_prelu_kernel_backward.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>

#include "kernels.h"

namespace softnpu::ops::kernels {
namespace {

constexpr double kFastGelu = 1.702;  // x * sigmoid(1.702 x)

}  // namespace

void gelu_v2(const at::Tensor& x, int64_t approximate, at::Tensor& y) { at::gelu_out(y, x, approximate == 0 ? "none" : "tanh"); }

void fast_gelu(const at::Tensor& self, at::Tensor& out) { at::mul_out(out, self, at::sigmoid(self.mul(kFastGelu))); }

void fast_gelu_backward(const at::Tensor& gradOutput, const at::Tensor& self, at::Tensor& gradInput) {
  const at::Tensor gate = at::sigmoid(self.mul(kFastGelu));
  at::mul_out(gradInput, gradOutput, gate.mul(self.mul(kFastGelu).mul_(gate.neg().add_(1)).add_(1)));
}

void prelu_backward(const at::Tensor& gradOutput, const at::Tensor& self, const at::Tensor& weight, at::Tensor& gradInput,
                    at::Tensor& gradWeight) {
  // There is one weight, or one per channel.
  std::vector<int64_t> shape;
  if (weight.numel() != 1) {
    shape.assign(size_t(self.dim()), 1);
    shape[self.dim() >= 2 ? 1 : 0] = weight.numel();
  }
  const auto [for_input, for_weight] = at::_prelu_kernel_backward(gradOutput, self, weight.view(shape));
  gradInput.copy_(for_input);
  gradWeight.copy_(for_weight.sum_to_size(shape).view_as(gradWeight));
}

void swiglu(const at::Tensor& x, int64_t dim, at::Tensor& out) {
  const std::vector<at::Tensor> halves = x.chunk(2, dim);
  at::mul_out(out, at::silu(halves[0]), halves[1]);
}

void swiglu_grad(const at::Tensor& yGrad, const at::Tensor& x, int64_t dim, at::Tensor& out) {
  const std::vector<at::Tensor> halves = x.chunk(2, dim);
  const std::vector<at::Tensor> outputs = out.chunk(2, dim);
  outputs[0].copy_(at::silu_backward(yGrad.mul(halves[1]), halves[0]));
  outputs[1].copy_(yGrad.mul(at::silu(halves[0])));
}

}  // namespace softnpu::ops::kernels
