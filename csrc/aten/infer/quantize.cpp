// Shapes of quantisation.
#include <ATen/WrapDimUtils.h>

#include "aten/machinery/infer.h"

namespace torch_npu::infer {

Outputs<2> fake_quantize_per_channel(const at::Tensor& self, const at::Tensor& scale, const at::Tensor& zero_point, int64_t axis,
                                     int64_t quant_min, int64_t quant_max) {
  TORCH_CHECK(scale.scalar_type() == at::kFloat || scale.scalar_type() == at::kBFloat16,
              "Scale must be Float or BFloat16, found ", scale.scalar_type());
  TORCH_CHECK(
      zero_point.scalar_type() == at::kInt || zero_point.scalar_type() == at::kFloat || zero_point.scalar_type() == at::kHalf,
      "Zero-point must be Int32, Float or Half, found ", zero_point.scalar_type());
  TORCH_CHECK(scale.dim() == 1, "scale should be a 1-D tensor");
  TORCH_CHECK(zero_point.dim() == 1, "zero point should be a 1-D tensor");
  TORCH_CHECK(scale.numel() == zero_point.numel(), "scale and zero-point need to have the same dimensions");
  axis = at::maybe_wrap_dim(axis, self.dim());
  TORCH_CHECK(scale.numel() == self.size(axis), "dimensions of scale and zero-point are not consistent with input tensor");
  TORCH_CHECK(quant_min <= quant_max, "`quant_min` should be less than or equal to `quant_max`.");
  return {like(self), like(self, at::kBool)};
}

Outputs<1> learnable_quantize_per_tensor(const at::Tensor& self, const at::Tensor& scale, const at::Tensor& zero_point,
                                         int64_t quant_min, int64_t quant_max, double /*grad_factor*/) {
  TORCH_CHECK(scale.dim() > 0 && zero_point.dim() > 0, "scale and zero_point cannot be 0-dim tensors");
  TORCH_CHECK(quant_min <= quant_max, "`quant_min` should be less than or equal to `quant_max`.");
  return {like(self)};
}

Outputs<3> learnable_quantize_per_tensor_backward(const at::Tensor& grad, const at::Tensor& self, const at::Tensor& scale,
                                                  const at::Tensor& zero_point, int64_t quant_min, int64_t quant_max,
                                                  double grad_factor) {
  learnable_quantize_per_tensor(self, scale, zero_point, quant_min, quant_max, grad_factor);
  TORCH_CHECK(grad.sizes() == self.sizes(), "`X` and `dY` are not the same size");
  return {like(self), sized({1}, scale.options()), sized({1}, zero_point.options())};
}

Outputs<1> learnable_quantize_per_channel(const at::Tensor& self, const at::Tensor& scale, const at::Tensor& zero_point,
                                          int64_t axis, int64_t quant_min, int64_t quant_max, double /*grad_factor*/) {
  TORCH_CHECK(scale.dim() == 1, "scale should be a 1-D tensor");
  TORCH_CHECK(zero_point.dim() == 1, "zero point should be a 1-D tensor");
  TORCH_CHECK(scale.numel() == zero_point.numel(), "scale and zero-point need to have the same dimensions");
  TORCH_CHECK(axis >= 0 && axis < self.dim(), "`axis` must be between 0 and number of dimensions of input");
  TORCH_CHECK(scale.numel() == self.size(axis), "dimensions of scale and zero-point are not consistent with input tensor");
  TORCH_CHECK(quant_min <= quant_max, "`quant_min` should be less than or equal to `quant_max`.");
  return {like(self)};
}

Outputs<3> learnable_quantize_per_channel_backward(const at::Tensor& grad, const at::Tensor& self, const at::Tensor& scale,
                                                   const at::Tensor& zero_point, int64_t axis, int64_t quant_min,
                                                   int64_t quant_max, double grad_factor) {
  learnable_quantize_per_channel(self, scale, zero_point, axis, quant_min, quant_max, grad_factor);
  TORCH_CHECK(grad.sizes() == self.sizes(), "`X` and `dY` are not the same size");
  return {like(self), like(scale), like(zero_point)};
}

}  // namespace torch_npu::infer
