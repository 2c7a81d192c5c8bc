// Batch normalisation under its newer names. The reserve that they return is empty.
#include <ATen/ops/native_batch_norm.h>
#include <ATen/ops/native_batch_norm_backward.h>
#include <torch/library.h>

#include "aten/machinery/allocate.h"
#include "aten/machinery/device_scope.h"
#include "aten/machinery/optional_tensor.h"

namespace torch_npu {
namespace {

using ThreeTensors = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
using FourTensors = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

FourTensors batch_norm_with_update(const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                                   at::Tensor& running_mean, at::Tensor& running_var, double momentum, double eps) {
  auto [out, mean, invstd] =
      at::native_batch_norm(input, weight, bias, running_mean, running_var, /*training=*/true, momentum, eps);
  const DeviceScope scope(input);
  return {std::move(out), std::move(mean), std::move(invstd), empty({0}, at::kByte)};
}

std::tuple<at::Tensor&, at::Tensor&, at::Tensor&, at::Tensor&> batch_norm_with_update_out(
    const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias, at::Tensor& running_mean,
    at::Tensor& running_var, double momentum, double eps, at::Tensor& out, at::Tensor& mean, at::Tensor& invstd,
    at::Tensor& reserve) {
  at::native_batch_norm_out(out, mean, invstd, input, weight, bias, running_mean, running_var, /*training=*/true, momentum, eps);
  return {out, mean, invstd, reserve};
}

ThreeTensors batch_norm_backward(const at::Tensor& grad_out, const at::Tensor& input, const at::Tensor& weight,
                                 const OptionalTensor& running_mean, const OptionalTensor& running_var,
                                 const OptionalTensor& mean, const OptionalTensor& invstd, bool update, double eps,
                                 std::array<bool, 3> output_mask, const at::Tensor& /*reserve*/) {
  return at::native_batch_norm_backward(grad_out, input, weight, running_mean, running_var, mean, invstd, update, eps,
                                        output_mask);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_batch_norm_with_update", TORCH_FN(batch_norm_with_update));
  m.impl("_batch_norm_with_update.out", TORCH_FN(batch_norm_with_update_out));
  m.impl("batch_norm_backward", TORCH_FN(batch_norm_backward));
}

}  // namespace torch_npu
