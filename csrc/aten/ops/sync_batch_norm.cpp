// The steps of a batch norm whose statistics come from several processes: torch.nn.SyncBatchNorm. The CPU has none of them.
#include <ATen/TensorOperators.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/var_mean.h>
#include <torch/library.h>

#include "aten/machinery/allocate.h"
#include "aten/machinery/optional_tensor.h"

namespace torch_npu {
namespace {

at::ScalarType statistics_type(const at::Tensor& input) {
  return at::isReducedFloatingType(input.scalar_type()) ? at::kFloat : input.scalar_type();
}

// All dimensions except that of the channels.
at::DimVector other_dimensions(const at::Tensor& input) {
  TORCH_CHECK(input.dim() >= 2, "expected an input of at least 2 dimensions, got ", input.dim());
  at::DimVector dims{0};
  for (int64_t dim = 2; dim < input.dim(); ++dim) dims.push_back(dim);
  return dims;
}

// One number per channel, in a shape that broadcasts to `input`.
at::Tensor per_channel(const at::Tensor& values, const at::Tensor& input) {
  at::DimVector sizes(size_t(input.dim()), 1);
  sizes[1] = values.numel();
  return values.reshape(sizes);
}

std::tuple<at::Tensor, at::Tensor> batch_norm_stats(const at::Tensor& input, double eps) {
  const auto [variance, mean] =
      at::var_mean(input.to(statistics_type(input)), at::OptionalIntArrayRef(other_dimensions(input)), at::Scalar(0));
  return {mean, at::rsqrt(variance + eps)};
}

at::Tensor batch_norm_elemt(const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                            const at::Tensor& mean, const at::Tensor& invstd, double) {
  at::Tensor result = (input.to(statistics_type(input)) - per_channel(mean, input)) * per_channel(invstd, input);
  if (weight && weight->defined()) result = result * per_channel(*weight, input);
  if (bias && bias->defined()) result = result + per_channel(*bias, input);
  return result.to(input.scalar_type());
}

// Each process has a row of `mean` and `invstd` and an element of `counts`.
std::tuple<at::Tensor, at::Tensor> batch_norm_gather_stats_with_counts(const at::Tensor&, const at::Tensor& mean,
                                                                       const at::Tensor& invstd,
                                                                       const OptionalTensor& running_mean,
                                                                       const OptionalTensor& running_var, double momentum,
                                                                       double eps, const at::Tensor& counts) {
  const at::Tensor weights = counts.to(mean.scalar_type()).reshape({-1, 1});
  const at::Tensor total = weights.sum();
  const at::Tensor average = (mean * weights).sum(0) / total;
  const at::Tensor spread = invstd.pow(-2) - eps + (mean - average).square();
  const at::Tensor variance = (spread * weights).sum(0) / total;
  if (running_mean && running_mean->defined()) running_mean->lerp_(average.to(running_mean->scalar_type()), momentum);
  if (running_var && running_var->defined()) {
    const at::Tensor unbiased = variance * (total / (total - 1));
    running_var->lerp_(unbiased.to(running_var->scalar_type()), momentum);
  }
  return {average, at::rsqrt(variance + eps)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> batch_norm_backward_reduce(
    const at::Tensor& grad_out, const at::Tensor& input, const at::Tensor& mean, const at::Tensor& invstd,
    const OptionalTensor& weight, bool input_g, bool weight_g, bool bias_g) {
  const at::ScalarType type = statistics_type(input);
  const at::DimVector dims = other_dimensions(input);
  const at::Tensor grad = grad_out.to(type);
  const at::Tensor sum_dy = grad.sum(dims);
  const at::Tensor sum_dy_xmu = (grad * (input.to(type) - per_channel(mean, input))).sum(dims);
  const at::ScalarType weight_type = weight && weight->defined() ? weight->scalar_type() : type;
  return {input_g ? sum_dy : at::Tensor(), input_g ? sum_dy_xmu : at::Tensor(),
          weight_g ? (sum_dy_xmu * invstd).to(weight_type) : at::Tensor(), bias_g ? sum_dy.to(weight_type) : at::Tensor()};
}

at::Tensor batch_norm_backward_elemt(const at::Tensor& grad_out, const at::Tensor& input, const at::Tensor& mean,
                                     const at::Tensor& invstd, const OptionalTensor& weight, const at::Tensor& sum_dy,
                                     const at::Tensor& sum_dy_xmu, const at::Tensor& count) {
  const at::ScalarType type = statistics_type(input);
  const at::Tensor total = count.sum().to(type);
  const at::Tensor centred = input.to(type) - per_channel(mean, input);
  const at::Tensor slope = per_channel(invstd.square() * sum_dy_xmu / total, input);
  at::Tensor result = (grad_out.to(type) - per_channel(sum_dy / total, input) - centred * slope) * per_channel(invstd, input);
  if (weight && weight->defined()) result = result * per_channel(*weight, input);
  return result.to(input.scalar_type());
}

using Input = const at::Tensor&;
using MaybeInput = const OptionalTensor&;

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("batch_norm_stats", TORCH_FN(batch_norm_stats));
  m.impl("batch_norm_elemt", TORCH_FN(batch_norm_elemt));
  m.impl("batch_norm_elemt.out", TORCH_FN((out_form<batch_norm_elemt, Input, MaybeInput, MaybeInput, Input, Input, double>)));
  m.impl("batch_norm_gather_stats_with_counts", TORCH_FN(batch_norm_gather_stats_with_counts));
  m.impl("batch_norm_backward_reduce", TORCH_FN(batch_norm_backward_reduce));
  m.impl("batch_norm_backward_elemt", TORCH_FN(batch_norm_backward_elemt));
}

}  // namespace torch_npu
