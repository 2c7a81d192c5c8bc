#include <ATen/ops/_fake_quantize_per_tensor_affine_cachemask_tensor_qparams.h>
#include <ATen/ops/_make_per_channel_quantized_tensor.h>
#include <ATen/ops/_make_per_tensor_quantized_tensor.h>
#include <ATen/ops/full.h>
#include <ATen/ops/quantize_per_channel.h>
#include <ATen/ops/quantize_per_tensor.h>

#include "kernels.h"

namespace softnpu::ops::kernels {

namespace {

// The quantized type of ATen for an integer type.
at::ScalarType grid_of(const at::Tensor& integers) {
  switch (integers.scalar_type()) {
    case at::kChar:
      return at::kQInt8;
    case at::kByte:
      return at::kQUInt8;
    default:
      TORCH_CHECK(integers.scalar_type() == at::kInt, "int8, uint8 or int32 is expected, not ", integers.scalar_type());
      return at::kQInt32;
  }
}

}  // namespace

void fake_quantize_per_tensor(const at::Tensor& self, const at::Tensor& scale, const at::Tensor& zeroPoint,
                              double fakeQuantEnbled, int64_t quantMin, int64_t quantMax, at::Tensor& out, at::Tensor& mask) {
  const at::Tensor enabled = at::full({1}, fakeQuantEnbled != 0, at::kLong);
  const auto [result, inside] =
      at::_fake_quantize_per_tensor_affine_cachemask_tensor_qparams(self, scale, zeroPoint, enabled, quantMin, quantMax);
  out.copy_(result);
  mask.copy_(inside);
}

void quantize_per_tensor(const at::Tensor& self, double scale, int64_t zeroPoint, at::Tensor& out) {
  out.copy_(at::quantize_per_tensor(self, scale, zeroPoint, grid_of(out)).int_repr());
}

void quantize_per_channel(const at::Tensor& self, const at::Tensor& scales, const at::Tensor& zeroPoints, int64_t axis,
                          at::Tensor& out) {
  out.copy_(at::quantize_per_channel(self, scales, zeroPoints, axis, grid_of(out)).int_repr());
}

void dequantize_per_tensor(const at::Tensor& self, double scale, int64_t zeroPoint, at::Tensor& out) {
  out.copy_(at::_make_per_tensor_quantized_tensor(self.contiguous(), scale, zeroPoint).dequantize());
}

void dequantize_per_channel(const at::Tensor& self, const at::Tensor& scales, const at::Tensor& zeroPoints, int64_t axis,
                            at::Tensor& out) {
  out.copy_(at::_make_per_channel_quantized_tensor(self.contiguous(), scales, zeroPoints, axis).dequantize());
}

}  // namespace softnpu::ops::kernels
