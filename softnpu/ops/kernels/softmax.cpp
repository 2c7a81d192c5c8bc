// Softmax with input in half precision and output in float32, which ATen's CPU kernels do not have.
#include <ATen/ops/_log_softmax.h>
#include <ATen/ops/_log_softmax_backward_data.h>
#include <ATen/ops/_masked_softmax.h>
#include <ATen/ops/_masked_softmax_backward.h>
#include <ATen/ops/_softmax_backward_data.h>

#include "kernels.h"

namespace softnpu::ops::kernels {

void log_softmax(const at::Tensor& self, int64_t dim, at::Tensor& out) {
  at::_log_softmax_out(out, self.to(out.scalar_type()), dim, /*half_to_float=*/false);
}

void softmax_backward(const at::Tensor& gradOutput, const at::Tensor& output, int64_t dim, at::Tensor& out) {
  const at::ScalarType type = output.scalar_type();
  if (out.scalar_type() == type) {
    at::_softmax_backward_data_out(out, gradOutput, output, dim, type);
    return;
  }
  out.copy_(at::_softmax_backward_data(gradOutput, output, dim, type));
}

void log_softmax_backward(const at::Tensor& gradOutput, const at::Tensor& output, int64_t dim, at::Tensor& out) {
  const at::ScalarType type = output.scalar_type();
  if (out.scalar_type() == type) {
    at::_log_softmax_backward_data_out(out, gradOutput, output, dim, type);
    return;
  }
  out.copy_(at::_log_softmax_backward_data(gradOutput, output, dim, type));
}

// A negative value means "not given"; for the dimension it means the last one.
void masked_softmax(const at::Tensor& self, const at::Tensor& mask, int64_t dim, int64_t maskType, at::Tensor& out) {
  if (self.numel() == 0) return;  // ATen's kernel divides by the number of rows
  out.copy_(at::_masked_softmax(self, mask, dim, maskType < 0 ? std::nullopt : std::optional(maskType)));
}

void masked_softmax_backward(const at::Tensor& gradOutput, const at::Tensor& output, const at::Tensor& mask, int64_t dim,
                             at::Tensor& out) {
  if (output.numel() == 0) return;
  out.copy_(at::_masked_softmax_backward(gradOutput, output, mask, dim));
}

}  // namespace softnpu::ops::kernels
