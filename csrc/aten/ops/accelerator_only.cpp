// Operators that PyTorch has for accelerators and not for the CPU, put together of others: matrix products with a wider result,
// the parts of a batch norm whose statistics come from several processes (torch.nn.SyncBatchNorm), and a few of convolution,
// dropout and matmul.
#include <ATen/ExpandUtils.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/var_mean.h>
#include <torch/library.h>

#include "aten/machinery/allocate.h"
#include "aten/machinery/optional_tensor.h"

namespace torch_npu {
namespace {

// The out= form of a function.
template <auto kFunction, class... Arguments>
at::Tensor& into(Arguments... arguments, at::Tensor& out) {
  const at::Tensor result = kFunction(arguments...);
  resize_output(out, result.sizes(), {}, result.options());
  return out.copy_(result);
}

// ---- matrix products with a wider result ----

// The operands in the dtype of the result: products and sums of half precision are exact and rounded once in float.
void check_wider(const at::Tensor& self, at::ScalarType out_dtype) {
  const bool widens = out_dtype == at::kFloat && at::isReducedFloatingType(self.scalar_type());
  TORCH_CHECK(out_dtype == self.scalar_type() || widens,
              "out_dtype must be the same as input dtype or fp32 for fp16/bf16 inputs, got ", out_dtype, " for ",
              self.scalar_type());
}

at::Tensor mm(const at::Tensor& self, const at::Tensor& mat2, at::ScalarType out_dtype) {
  check_wider(self, out_dtype);
  TORCH_CHECK(self.scalar_type() == mat2.scalar_type(), "input dtypes must be the same");
  return at::mm(self.to(out_dtype), mat2.to(out_dtype));
}

at::Tensor bmm(const at::Tensor& self, const at::Tensor& mat2, at::ScalarType out_dtype) {
  check_wider(self, out_dtype);
  TORCH_CHECK(self.scalar_type() == mat2.scalar_type(), "input dtypes must be the same");
  return at::bmm(self.to(out_dtype), mat2.to(out_dtype));
}

at::Tensor addmm(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2, at::ScalarType out_dtype,
                 const at::Scalar& beta, const at::Scalar& alpha) {
  check_wider(mat1, out_dtype);
  TORCH_CHECK(mat1.scalar_type() == mat2.scalar_type(), "mat1 and mat2 must have the same dtype");
  return at::addmm(self.to(out_dtype), mat1.to(out_dtype), mat2.to(out_dtype), beta, alpha);
}

at::Tensor baddbmm(const at::Tensor& self, const at::Tensor& batch1, const at::Tensor& batch2, at::ScalarType out_dtype,
                   const at::Scalar& beta, const at::Scalar& alpha) {
  check_wider(batch1, out_dtype);
  TORCH_CHECK(batch1.scalar_type() == batch2.scalar_type(), "batch1 and batch2 must have the same dtype");
  return at::baddbmm(self.to(out_dtype), batch1.to(out_dtype), batch2.to(out_dtype), beta, alpha);
}

// ---- the parts of a batch norm ----

at::ScalarType statistics_type(const at::Tensor& input) {
  return at::isReducedFloatingType(input.scalar_type()) ? at::kFloat : input.scalar_type();
}

// All dimensions but that of the channels.
at::DimVector other_dimensions(const at::Tensor& input) {
  TORCH_CHECK(input.dim() >= 2, "expected an input of at least 2 dimensions, got ", input.dim());
  at::DimVector dims{0};
  for (int64_t dim = 2; dim < input.dim(); ++dim) dims.push_back(dim);
  return dims;
}

// A number per channel, to be spread over `input`.
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

// Rows of `mean` and `invstd` and elements of `counts` are those of the processes.
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

// ---- the rest ----

at::Tensor masked_scale(const at::Tensor& self, const at::Tensor& mask, double scale) {
  return self * (mask.to(self.scalar_type()) * scale);
}

at::Tensor conv_depthwise2d(const at::Tensor& self, const at::Tensor& weight, at::IntArrayRef kernel_size,
                            const OptionalTensor& bias, at::IntArrayRef stride, at::IntArrayRef padding,
                            at::IntArrayRef dilation) {
  TORCH_CHECK(weight.dim() == 4 && weight.sizes().slice(2) == kernel_size, "kernel_size ", kernel_size,
              " is not that of the weight, ", weight.sizes());
  TORCH_CHECK(self.dim() == 4, "expected an input of 4 dimensions, got ", self.dim());
  return at::convolution(self, weight, bias, stride, padding, dilation, /*transposed=*/false, /*output_padding=*/{0, 0},
                         /*groups=*/self.size(1));
}

// A vector is a matrix of one row on the left and of one column on the right.
std::tuple<at::Tensor, at::Tensor> matmul_backward(const at::Tensor& grad, const at::Tensor& self, const at::Tensor& other,
                                                   std::array<bool, 2> mask) {
  const at::Tensor left = self.dim() == 1 ? self.unsqueeze(0) : self;
  const at::Tensor right = other.dim() == 1 ? other.unsqueeze(-1) : other;
  at::Tensor product = self.dim() == 1 ? grad.unsqueeze(other.dim() == 1 ? -1 : -2) : grad;
  if (other.dim() == 1) product = product.unsqueeze(-1);
  at::Tensor grad_self, grad_other;
  if (mask[0]) grad_self = at::sum_to(at::matmul(product, right.mH()), left.sizes()).reshape(self.sizes());
  if (mask[1]) grad_other = at::sum_to(at::matmul(left.mH(), product), right.sizes()).reshape(other.sizes());
  return {grad_self, grad_other};
}

using Number = const at::Scalar&;
using Input = const at::Tensor&;
using MaybeInput = const OptionalTensor&;
using Sizes = at::IntArrayRef;

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("mm.dtype", TORCH_FN(mm));
  m.impl("mm.dtype_out", TORCH_FN((into<mm, Input, Input, at::ScalarType>)));
  m.impl("bmm.dtype", TORCH_FN(bmm));
  m.impl("bmm.dtype_out", TORCH_FN((into<bmm, Input, Input, at::ScalarType>)));
  m.impl("addmm.dtype", TORCH_FN(addmm));
  m.impl("addmm.dtype_out", TORCH_FN((into<addmm, Input, Input, Input, at::ScalarType, Number, Number>)));
  m.impl("baddbmm.dtype", TORCH_FN(baddbmm));
  m.impl("baddbmm.dtype_out", TORCH_FN((into<baddbmm, Input, Input, Input, at::ScalarType, Number, Number>)));
  m.impl("batch_norm_stats", TORCH_FN(batch_norm_stats));
  m.impl("batch_norm_elemt", TORCH_FN(batch_norm_elemt));
  m.impl("batch_norm_elemt.out", TORCH_FN((into<batch_norm_elemt, Input, MaybeInput, MaybeInput, Input, Input, double>)));
  m.impl("batch_norm_gather_stats_with_counts", TORCH_FN(batch_norm_gather_stats_with_counts));
  m.impl("batch_norm_backward_reduce", TORCH_FN(batch_norm_backward_reduce));
  m.impl("batch_norm_backward_elemt", TORCH_FN(batch_norm_backward_elemt));
  m.impl("_masked_scale", TORCH_FN(masked_scale));
  m.impl("_conv_depthwise2d", TORCH_FN(conv_depthwise2d));
  m.impl("_conv_depthwise2d.out", TORCH_FN((into<conv_depthwise2d, Input, Input, Sizes, MaybeInput, Sizes, Sizes, Sizes>)));
  m.impl("matmul_backward", TORCH_FN(matmul_backward));
}

}  // namespace torch_npu
