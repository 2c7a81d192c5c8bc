// The backward pass of convolutions, and convolutions that are named after one implementation. All call the convolution of the
// device.
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/slow_conv_transpose2d_meta.h>
#include <torch/library.h>

#include "aten/machinery/cube_math.h"
#include "aten/machinery/device_scope.h"
#include "aten/machinery/infer.h"
#include "aten/machinery/structured.h"
#include "plugin/calls.h"

namespace torch_npu {
namespace {

using Ints = at::IntArrayRef;

constexpr int64_t kOnes[] = {1, 1, 1}, kZeros[] = {0, 0, 0};
Ints ones(size_t rank) { return {kOnes, rank}; }
Ints zeros(size_t rank) { return {kZeros, rank}; }

// A single image is a batch of one. Volumes are contiguous, as on the CPU.
at::Tensor convolve(const at::Tensor& self, const at::Tensor& weight, const OptionalTensor& bias, Ints stride, Ints padding,
                    Ints dilation, bool transposed, Ints output_padding) {
  const bool single = self.dim() + 1 == weight.dim();
  const at::Tensor out = at::convolution(single ? self.unsqueeze(0) : self, weight, bias, stride, padding, dilation, transposed,
                                         output_padding, /*groups=*/1);
  const at::Tensor ordered = weight.dim() == 5 ? out.contiguous() : out;
  return single ? ordered.squeeze(0) : ordered;
}

template <size_t kRank>
at::Tensor slow_conv(const at::Tensor& self, const at::Tensor& weight, Ints /*kernel_size*/, const OptionalTensor& bias,
                     Ints stride, Ints padding) {
  TORCH_CHECK(self.dim() == kRank + 2, "Expected ", kRank + 2, "D input tensor, but got: ", self.sizes());
  return convolve(self, weight, bias, stride, padding, ones(kRank), /*transposed=*/false, zeros(kRank));
}

template <size_t kRank>
at::Tensor& slow_conv_out(const at::Tensor& self, const at::Tensor& weight, Ints kernel_size, const OptionalTensor& bias,
                          Ints stride, Ints padding, at::Tensor& output) {
  return store(slow_conv<kRank>(self, weight, kernel_size, bias, stride, padding), output);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> slow_conv2d_backward(const at::Tensor& grad_output, const at::Tensor& self,
                                                                    const at::Tensor& weight, Ints /*kernel_size*/, Ints stride,
                                                                    Ints padding, std::array<bool, 3> output_mask) {
  return at::convolution_backward(grad_output, self, weight, Ints{weight.size(0)}, stride, padding, ones(2),
                                  /*transposed=*/false, zeros(2), /*groups=*/1, output_mask);
}

std::tuple<at::Tensor&, at::Tensor&, at::Tensor&> slow_conv2d_backward_out(const at::Tensor& grad_output, const at::Tensor& self,
                                                                           const at::Tensor& weight, Ints kernel_size,
                                                                           Ints stride, Ints padding, at::Tensor& grad_input,
                                                                           at::Tensor& grad_weight, at::Tensor& grad_bias) {
  const std::array<bool, 3> wanted{grad_input.defined(), grad_weight.defined(), grad_bias.defined()};
  const auto [for_input, for_weight, for_bias] =
      slow_conv2d_backward(grad_output, self, weight, kernel_size, stride, padding, wanted);
  if (wanted[0]) store(for_input, grad_input);
  if (wanted[1]) store(for_weight, grad_weight);
  if (wanted[2]) store(for_bias, grad_bias);
  return {grad_input, grad_weight, grad_bias};
}

at::Tensor slow_conv_dilated(const at::Tensor& self, const at::Tensor& weight, Ints kernel_size, const OptionalTensor& bias,
                             Ints stride, Ints padding, Ints dilation) {
  return convolve(self, weight, bias, stride, padding, dilation, /*transposed=*/false, zeros(kernel_size.size()));
}

at::Tensor slow_conv_transpose3d(const at::Tensor& self, const at::Tensor& weight, Ints /*kernel_size*/,
                                 const OptionalTensor& bias, Ints stride, Ints padding, Ints output_padding, Ints dilation) {
  return convolve(self, weight, bias, stride, padding, dilation, /*transposed=*/true, output_padding);
}

at::Tensor& slow_conv_transpose3d_out(const at::Tensor& self, const at::Tensor& weight, Ints kernel_size,
                                      const OptionalTensor& bias, Ints stride, Ints padding, Ints output_padding, Ints dilation,
                                      at::Tensor& out) {
  return store(slow_conv_transpose3d(self, weight, kernel_size, bias, stride, padding, output_padding, dilation), out);
}

using Transpose2d = at::meta::structured_slow_conv_transpose2d;

auto transpose2d(const at::Tensor& self, const at::Tensor& weight, const OptionalTensor& bias, Ints stride, Ints padding,
                 Ints output_padding, Ints dilation) {
  return [=, &self, &weight, &bias](const at::Tensor& out) {
    call::aclnnConvolution(self.dim() == 3 ? self.unsqueeze(0) : self, weight, bias, stride, padding, dilation,
                           /*transposed=*/true, output_padding, /*groups=*/1, out, conv_math_type());
  };
}

at::Tensor slow_conv_transpose2d(const at::Tensor& self, const at::Tensor& weight, Ints kernel_size, const OptionalTensor& bias,
                                 Ints stride, Ints padding, Ints output_padding, Ints dilation) {
  const DeviceScope scope(self);
  return compute<Transpose2d>(transpose2d(self, weight, bias, stride, padding, output_padding, dilation), self, weight,
                              kernel_size, borrowed(bias), stride, padding, output_padding, dilation);
}

at::Tensor& slow_conv_transpose2d_out(const at::Tensor& self, const at::Tensor& weight, Ints kernel_size,
                                      const OptionalTensor& bias, Ints stride, Ints padding, Ints output_padding, Ints dilation,
                                      at::Tensor& out) {
  const DeviceScope scope(self);
  return compute_into<Transpose2d, Form::kOut>(out, transpose2d(self, weight, bias, stride, padding, output_padding, dilation),
                                               self, weight, kernel_size, borrowed(bias), stride, padding, output_padding,
                                               dilation);
}

// Gradients that the mask does not select are undefined.
std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward(const at::Tensor& grad_output, const at::Tensor& input,
                                                                    const at::Tensor& weight, Ints stride, Ints padding,
                                                                    Ints dilation, bool transposed, Ints output_padding,
                                                                    int64_t groups, std::array<bool, 3> output_mask) {
  const DeviceScope scope(grad_output);
  const int64_t channels = grad_output.size(1);
  Outputs<3> outputs{sized(input.sizes(), input.options()), sized(weight.sizes(), weight.options()),
                     sized({channels}, weight.options())};
  const at::MemoryFormat format = infer::convolution_format(input, weight);
  for (size_t index = 0; index < 2; ++index) outputs[index].options = outputs[index].options.memory_format(format);
  for (size_t index = 0; index < 3; ++index) outputs[index].wanted = output_mask[index];
  auto [grad_input, grad_weight, grad_bias] = allocate(outputs);
  call::aclnnConvolutionBackward(grad_output, input, weight, at::IntArrayRef{channels}, stride, padding, dilation, transposed,
                                 output_padding, static_cast<int32_t>(groups), output_mask, conv_math_type(), grad_input,
                                 grad_weight, grad_bias);
  return {std::move(grad_input), std::move(grad_weight), std::move(grad_bias)};
}

// The CPU has no kernel for it.
at::Tensor conv_depthwise2d(const at::Tensor& self, const at::Tensor& weight, at::IntArrayRef kernel_size,
                            const OptionalTensor& bias, at::IntArrayRef stride, at::IntArrayRef padding,
                            at::IntArrayRef dilation) {
  TORCH_CHECK(weight.dim() == 4 && weight.sizes().slice(2) == kernel_size, "kernel_size ", kernel_size,
              " is not that of the weight, ", weight.sizes());
  TORCH_CHECK(self.dim() == 4, "expected an input of 4 dimensions, got ", self.dim());
  return at::convolution(self, weight, bias, stride, padding, dilation, /*transposed=*/false, /*output_padding=*/{0, 0},
                         /*groups=*/self.size(1));
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("convolution_backward_overrideable", TORCH_FN(convolution_backward));
  m.impl("_slow_conv2d_forward", TORCH_FN(slow_conv<2>));
  m.impl("_slow_conv2d_forward.output", TORCH_FN(slow_conv_out<2>));
  m.impl("_slow_conv2d_backward.output_mask", TORCH_FN(slow_conv2d_backward));
  m.impl("_slow_conv2d_backward.grad_input", TORCH_FN(slow_conv2d_backward_out));
  m.impl("slow_conv3d_forward", TORCH_FN(slow_conv<3>));
  m.impl("slow_conv3d_forward.output", TORCH_FN(slow_conv_out<3>));
  m.impl("slow_conv_dilated2d", TORCH_FN(slow_conv_dilated));
  m.impl("slow_conv_dilated3d", TORCH_FN(slow_conv_dilated));
  m.impl("slow_conv_transpose2d", TORCH_FN(slow_conv_transpose2d));
  m.impl("slow_conv_transpose2d.out", TORCH_FN(slow_conv_transpose2d_out));
  m.impl("slow_conv_transpose3d", TORCH_FN(slow_conv_transpose3d));
  m.impl("slow_conv_transpose3d.out", TORCH_FN(slow_conv_transpose3d_out));
  m.impl("_conv_depthwise2d", TORCH_FN(conv_depthwise2d));
  m.impl("_conv_depthwise2d.out",
         TORCH_FN(
             (out_form<conv_depthwise2d, const at::Tensor&, const at::Tensor&, Ints, const OptionalTensor&, Ints, Ints, Ints>)));
}

}  // namespace torch_npu
