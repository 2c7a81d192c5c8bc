#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/adaptive_avg_pool3d.h>
#include <ATen/ops/adaptive_max_pool2d_backward.h>
#include <ATen/ops/adaptive_max_pool3d_backward.h>
#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/avg_pool2d_backward.h>
#include <ATen/ops/avg_pool3d.h>
#include <ATen/ops/avg_pool3d_backward.h>
#include <ATen/ops/fractional_max_pool2d_backward.h>
#include <ATen/ops/fractional_max_pool3d_backward.h>
#include <ATen/ops/max_pool2d_with_indices_backward.h>
#include <ATen/ops/max_pool3d_with_indices.h>
#include <ATen/ops/max_pool3d_with_indices_backward.h>

#include "kernels.h"
#include "ops/kernels/bounds.h"

namespace softnpu::ops::kernels {
namespace {

// 0 means "not given".
std::optional<int64_t> divisor(int64_t value) { return value == 0 ? std::nullopt : std::optional(value); }

// Indices of elements in an image or a volume. The index of an empty window is -1.
void check_places(const at::Tensor& places, const at::Tensor& self, int64_t rank) {
  check_bounds(places, c10::multiply_integers(self.sizes().slice(size_t(self.dim() - rank))), -1);
}

}  // namespace

void avg_pool2d(const at::Tensor& self, at::IntArrayRef kernelSize, at::IntArrayRef strides, at::IntArrayRef paddings,
                bool ceilMode, bool countIncludePad, int64_t divisorOverride, at::Tensor& out) {
  at::avg_pool2d_out(out, self, kernelSize, strides, paddings, ceilMode, countIncludePad, divisor(divisorOverride));
}

void avg_pool2d_backward(const at::Tensor& gradOutput, const at::Tensor& self, at::IntArrayRef kernelSize, at::IntArrayRef stride,
                         at::IntArrayRef padding, bool ceilMode, bool countIncludePad, int64_t divisorOverride,
                         at::Tensor& gradInput) {
  at::avg_pool2d_backward_out(gradInput, gradOutput, self, kernelSize, stride, padding, ceilMode, countIncludePad,
                              divisor(divisorOverride));
}

void avg_pool3d(const at::Tensor& self, at::IntArrayRef kernelSize, at::IntArrayRef stride, at::IntArrayRef padding,
                bool ceilMode, bool countIncludePad, int64_t divisorOverride, at::Tensor& out) {
  at::avg_pool3d_out(out, self, kernelSize, stride, padding, ceilMode, countIncludePad, divisor(divisorOverride));
}

void avg_pool3d_backward(const at::Tensor& gradOuput, const at::Tensor& self, at::IntArrayRef kernelSize, at::IntArrayRef stride,
                         at::IntArrayRef padding, bool ceilMode, bool countIncludePad, int64_t divisorOverride,
                         at::Tensor& output) {
  at::avg_pool3d_backward_out(output, gradOuput, self, kernelSize, stride, padding, ceilMode, countIncludePad,
                              divisor(divisorOverride));
}

void adaptive_avg_pool2d(const at::Tensor& self, at::IntArrayRef outputSize, at::Tensor& out) {
  at::adaptive_avg_pool2d_out(out, self, outputSize);
}

void adaptive_avg_pool3d(const at::Tensor& self, at::IntArrayRef outputSize, at::Tensor& out) {
  if (out.is_contiguous()) {
    at::adaptive_avg_pool3d_out(out, self, outputSize);
  } else {
    out.copy_(at::adaptive_avg_pool3d(self, outputSize));  // the out= form of ATen ignores strides
  }
}

void max_pool2d_backward(const at::Tensor& gradOutput, const at::Tensor& self, const at::Tensor& indices,
                         at::IntArrayRef kernelSize, at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation,
                         bool ceilMode, at::Tensor& gradInput) {
  check_places(indices, self, 2);
  at::max_pool2d_with_indices_backward_out(gradInput, gradOutput, self, kernelSize, stride, padding, dilation, ceilMode, indices);
}

void adaptive_max_pool2d_backward(const at::Tensor& gradOutput, const at::Tensor& self, const at::Tensor& indices,
                                  at::Tensor& gradInput) {
  check_places(indices, self, 2);
  at::adaptive_max_pool2d_backward_out(gradInput, gradOutput, self, indices.contiguous());
}

void adaptive_max_pool3d_backward(const at::Tensor& gradOutput, const at::Tensor& self, const at::Tensor& indices,
                                  at::Tensor& gradInput) {
  check_places(indices, self, 3);
  at::adaptive_max_pool3d_backward_out(gradInput, gradOutput, self, indices.contiguous());
}

// Indices are int32 in the ABI and int64 in ATen.
void max_pool3d(const at::Tensor& self, at::IntArrayRef kernelSize, at::IntArrayRef stride, at::IntArrayRef padding,
                at::IntArrayRef dilation, bool ceilMode, at::Tensor& out, at::Tensor& indices) {
  const auto [values, places] = at::max_pool3d_with_indices(self, kernelSize, stride, padding, dilation, ceilMode);
  out.copy_(values);
  indices.copy_(places);
}

void max_pool3d_backward(const at::Tensor& gradOutput, const at::Tensor& self, const at::Tensor& indices,
                         at::IntArrayRef kernelSize, at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation,
                         bool ceilMode, at::Tensor& gradInput) {
  check_places(indices, self, 3);
  gradInput.copy_(at::max_pool3d_with_indices_backward(gradOutput, self, kernelSize, stride, padding, dilation, ceilMode,
                                                       indices.to(at::kLong)));
}

void fractional_max_pool2d_backward(const at::Tensor& gradOutput, const at::Tensor& self, at::IntArrayRef kernelSize,
                                    at::IntArrayRef outputSize, const at::Tensor& indices, at::Tensor& gradInput) {
  check_places(indices, self, 2);
  at::fractional_max_pool2d_backward_out(gradInput, gradOutput, self, kernelSize, outputSize, indices.contiguous());
}

void fractional_max_pool3d_backward(const at::Tensor& gradOutput, const at::Tensor& self, at::IntArrayRef kernelSize,
                                    at::IntArrayRef outputSize, const at::Tensor& indices, at::Tensor& gradInput) {
  check_places(indices, self, 3);
  gradInput.copy_(at::fractional_max_pool3d_backward(gradOutput, self, kernelSize, outputSize, indices.contiguous()));
}

}  // namespace softnpu::ops::kernels
