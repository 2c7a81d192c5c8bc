#include <ATen/ops/_fake_quantize_per_tensor_affine_cachemask_tensor_qparams.h>
#include <ATen/ops/full.h>

#include "kernels.h"

namespace softnpu::ops::kernels {

void fake_quantize_per_tensor(const at::Tensor& self, const at::Tensor& scale, const at::Tensor& zeroPoint,
                              double fakeQuantEnbled, int64_t quantMin, int64_t quantMax, at::Tensor& out, at::Tensor& mask) {
  const at::Tensor enabled = at::full({1}, fakeQuantEnbled != 0, at::kLong);
  const auto [result, inside] =
      at::_fake_quantize_per_tensor_affine_cachemask_tensor_qparams(self, scale, zeroPoint, enabled, quantMin, quantMax);
  out.copy_(result);
  mask.copy_(inside);
}

}  // namespace softnpu::ops::kernels
