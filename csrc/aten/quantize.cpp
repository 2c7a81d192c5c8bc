// Quantisation pretended in training: values are rounded to the grid of an integer type, with a mask of those inside its range.
#include <ATen/ops/full.h>
#include <torch/library.h>

#include "aten/device_scope.h"
#include "aten/infer.h"
#include "plugin/calls.h"

namespace torch_npu {
namespace {

std::tuple<at::Tensor, at::Tensor> rounded(const at::Tensor& self, const at::Tensor& scale, const at::Tensor& zero_point,
                                           bool enabled, int64_t quant_min, int64_t quant_max) {
  TORCH_CHECK(quant_min <= quant_max, "`quant_min` should be less than or equal to `quant_max`.");
  const DeviceScope scope(self);
  auto [output, mask] = allocate(Outputs<2>{like(self), like(self, at::kBool)});
  call::aclnnFakeQuantPerTensorAffineCachemask(self, scale, zero_point, enabled ? 1.0F : 0.0F, quant_min, quant_max, output,
                                               mask);
  return {std::move(output), std::move(mask)};
}

std::tuple<at::Tensor, at::Tensor> by_numbers(const at::Tensor& self, double scale, int64_t zero_point, int64_t quant_min,
                                              int64_t quant_max) {
  TORCH_CHECK(zero_point >= quant_min && zero_point <= quant_max, "`zero_point` must be between `quant_min` and `quant_max`.");
  return rounded(self, at::full({1}, scale, self.options().dtype(at::kFloat)),
                 at::full({1}, zero_point, self.options().dtype(at::kInt)), /*enabled=*/true, quant_min, quant_max);
}

std::tuple<at::Tensor, at::Tensor> by_tensors(const at::Tensor& self, const at::Tensor& scale, const at::Tensor& zero_point,
                                              const at::Tensor& enabled, int64_t quant_min, int64_t quant_max) {
  return rounded(self, scale, zero_point, enabled.item().toBool(), quant_min, quant_max);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("fake_quantize_per_tensor_affine_cachemask", TORCH_FN(by_numbers));
  m.impl("_fake_quantize_per_tensor_affine_cachemask_tensor_qparams", TORCH_FN(by_tensors));
}

}  // namespace torch_npu
