#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>

#include "kernels.h"
#include "ops/kernels/result.h"

namespace softnpu::ops::kernels {

void convolution(const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& bias, at::IntArrayRef stride,
                 at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed, at::IntArrayRef outputPadding,
                 int64_t groups, at::Tensor& output) {
  output.copy_(at::convolution(input, weight, bias, stride, padding, dilation, transposed, outputPadding, groups));
}

void convolution_backward(const at::Tensor& gradOutput, const at::Tensor& input, const at::Tensor& weight,
                          at::OptionalIntArrayRef biasSizes, at::IntArrayRef stride, at::IntArrayRef padding,
                          at::IntArrayRef dilation, bool transposed, at::IntArrayRef outputPadding, int64_t groups,
                          at::IntArrayRef outputMask, const std::optional<at::Tensor>& gradInput,
                          const std::optional<at::Tensor>& gradWeight, const std::optional<at::Tensor>& gradBias) {
  const auto [for_input, for_weight, for_bias] = at::convolution_backward(
      gradOutput, input, weight, biasSizes, stride, padding, dilation, transposed, outputPadding, groups, flags<3>(outputMask));
  store(gradInput, for_input);
  store(gradWeight, for_weight);
  store(gradBias, for_bias);
}

}  // namespace softnpu::ops::kernels
