// Fake quantisation for training: values are rounded to the grid of an integer type, with a mask of those inside its range.
#include <ATen/ops/full.h>
#include <torch/library.h>

#include "aten/machinery/device_scope.h"
#include "aten/machinery/outputs.h"
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

// Computes scale and zero point from the moving range, per channel of `ch_axis` if requested, and rounds the values.
std::tuple<at::Tensor, at::Tensor> observed_and_rounded(const at::Tensor& self, const at::Tensor& observer_on,
                                                        const at::Tensor& fake_quant_on, at::Tensor& running_min,
                                                        at::Tensor& running_max, at::Tensor& scale, at::Tensor& zero_point,
                                                        double averaging_const, int64_t quant_min, int64_t quant_max,
                                                        int64_t ch_axis, bool per_row, bool symmetric) {
  TORCH_CHECK(ch_axis < self.dim(), "Error in _fused_moving_avg_obs_fq_helper: ch_axis must be < self.dim()");
  const DeviceScope scope(self);
  if (per_row && running_min.numel() == 0) {
    const int64_t rows = self.size(ch_axis);
    running_min.resize_({rows}).fill_(std::numeric_limits<float>::infinity());
    running_max.resize_({rows}).fill_(-std::numeric_limits<float>::infinity());
    scale.resize_({rows}).fill_(1);
    zero_point.resize_({rows}).fill_(0);
  }
  auto [output, mask] = allocate(Outputs<2>{like(self), like(self, at::kBool)});
  call::aclnnSoftObserveAndFakeQuant(self, observer_on, fake_quant_on, running_min, running_max, scale, zero_point,
                                     averaging_const, quant_min, quant_max, ch_axis, per_row, symmetric, output, mask);
  return {std::move(output), std::move(mask)};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("fake_quantize_per_tensor_affine_cachemask", TORCH_FN(by_numbers));
  m.impl("_fake_quantize_per_tensor_affine_cachemask_tensor_qparams", TORCH_FN(by_tensors));
  m.impl("_fused_moving_avg_obs_fq_helper", TORCH_FN(observed_and_rounded));
}

}  // namespace torch_npu
