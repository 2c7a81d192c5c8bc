// Normalizations. ATen's layer norm and the backward pass of its batch norm have no out= form, but their inner kernels write into
// given tensors. They are called on x86-64, where the macros below match the dispatch tables of the wheel. Elsewhere results are
// copied.
#if defined(__x86_64__)
#define HAVE_AVX512_CPU_DEFINITION
#define HAVE_AVX2_CPU_DEFINITION
#include <ATen/native/batch_norm.h>
#include <ATen/native/layer_norm.h>
#endif

#include <ATen/ops/_weight_norm_interface.h>
#include <ATen/ops/_weight_norm_interface_backward.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/native_batch_norm.h>
#include <ATen/ops/native_batch_norm_backward.h>
#include <ATen/ops/native_group_norm.h>
#include <ATen/ops/native_group_norm_backward.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/native_layer_norm_backward.h>
#include <ATen/ops/norm_except_dim.h>

#include "kernels.h"
#include "ops/kernels/result.h"

namespace softnpu::ops::kernels {
namespace {

at::Tensor or_undefined(const std::optional<at::Tensor>& tensor) { return tensor.value_or(at::Tensor()); }

// Whether ATen's inner kernel can use the tensors: dense and of one type. Undefined tensors are ignored.
bool plain(std::initializer_list<at::Tensor> tensors, at::ScalarType type) {
  for (const at::Tensor& tensor : tensors) {
    if (tensor.defined() && (tensor.scalar_type() != type || !tensor.is_contiguous())) return false;
  }
  return true;
}

struct Rows {
  int64_t count;
  int64_t length;
};

#if defined(__x86_64__)
void layer_norm_rows(Rows rows, const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias, double eps,
                     at::Tensor& out, at::Tensor mean, at::Tensor rstd) {
  at::native::LayerNormKernel(at::kCPU, input, weight, bias, rows.count, rows.length, eps, &out, &mean, &rstd);
}

// Undefined gradients are not computed.
void layer_norm_rows_backward(Rows rows, const at::Tensor& gradient, const at::Tensor& input, const at::Tensor& mean,
                              const at::Tensor& rstd, const at::Tensor& weight, at::Tensor for_input, at::Tensor for_weight,
                              at::Tensor for_bias) {
  at::native::LayerNormBackwardKernel(at::kCPU, gradient, input, mean, rstd, weight, rows.count, rows.length, &for_input,
                                      &for_weight, &for_bias);
}
#endif

Rows rows_of(const at::Tensor& input, at::IntArrayRef normalized) {
  const int64_t length = c10::multiply_integers(normalized);
  return {length == 0 ? 0 : input.numel() / length, length};
}

// As many of the last dimensions as `gamma` has.
std::vector<int64_t> last_dimensions(const at::Tensor& gamma) {
  std::vector<int64_t> dims;
  for (int64_t dim = gamma.dim(); dim > 0; --dim) dims.push_back(-dim);
  return dims;
}

}  // namespace

// ATen's out= form reads the result before it writes it if the input is not dense.
void batch_norm(const at::Tensor& input, const std::optional<at::Tensor>& weight, const std::optional<at::Tensor>& bias,
                const std::optional<at::Tensor>& runningMean, const std::optional<at::Tensor>& runningVar, bool training,
                double momentum, double eps, at::Tensor& output, at::Tensor& saveMean, at::Tensor& saveInvstd) {
  at::native_batch_norm_out(output, saveMean, saveInvstd, input.contiguous(input.suggest_memory_format()), weight, bias,
                            runningMean, runningVar, training, momentum, eps);
}

void batch_norm_backward(const at::Tensor& gradOut, const at::Tensor& input, const std::optional<at::Tensor>& weight,
                         const std::optional<at::Tensor>& runningMean, const std::optional<at::Tensor>& runningVar,
                         const std::optional<at::Tensor>& saveMean, const std::optional<at::Tensor>& saveInvstd, bool training,
                         double eps, at::IntArrayRef outputMask, const std::optional<at::Tensor>& gradInput,
                         const std::optional<at::Tensor>& gradWeight, const std::optional<at::Tensor>& gradBias) {
  const std::array<bool, 3> mask = flags<3>(outputMask);
  if (input.numel() == 0) {  // ATen's kernel divides by the number of rows
    if (mask[1] && wanted(gradWeight)) gradWeight->zero_();
    if (mask[2] && wanted(gradBias)) gradBias->zero_();
    return;
  }
#if defined(__x86_64__)
  at::Tensor input_grad = mask[0] ? or_undefined(gradInput) : at::Tensor();
  at::Tensor weight_grad = mask[1] ? or_undefined(gradWeight) : at::Tensor();
  at::Tensor bias_grad = mask[2] ? or_undefined(gradBias) : at::Tensor();
  const at::Tensor scale = or_undefined(weight), mean = or_undefined(runningMean), variance = or_undefined(runningVar);
  const at::Tensor saved_mean = or_undefined(saveMean), saved_invstd = or_undefined(saveInvstd);
  if (plain({gradOut, input, scale, mean, variance, saved_mean, saved_invstd, input_grad, weight_grad, bias_grad},
            input.scalar_type())) {
    at::native::batch_norm_cpu_backward_stub(at::kCPU, input_grad, weight_grad, bias_grad, gradOut, input, scale, mean, variance,
                                             saved_mean, saved_invstd, training, eps);
    return;
  }
#endif
  const auto [for_input, for_weight, for_bias] =
      at::native_batch_norm_backward(gradOut, input, weight, runningMean, runningVar, saveMean, saveInvstd, training, eps, mask);
  store(gradInput, for_input);
  store(gradWeight, for_weight);
  store(gradBias, for_bias);
}

void layer_norm(const at::Tensor& input, at::IntArrayRef normalizedShape, const std::optional<at::Tensor>& weightOptional,
                const std::optional<at::Tensor>& biasOptional, double eps, at::Tensor& out,
                const std::optional<at::Tensor>& meanOutOptional, const std::optional<at::Tensor>& rstdOutOptional) {
#if defined(__x86_64__)
  const at::Tensor weight = or_undefined(weightOptional);
  const at::Tensor bias = or_undefined(biasOptional);
  const Rows rows = rows_of(input, normalizedShape);
  if (rows.count != 0 && wanted(meanOutOptional) && wanted(rstdOutOptional) &&
      plain({input, weight, bias, out, *meanOutOptional, *rstdOutOptional}, input.scalar_type())) {
    return layer_norm_rows(rows, input, weight, bias, eps, out, *meanOutOptional, *rstdOutOptional);
  }
#endif
  const auto [result, mean, rstd] = at::native_layer_norm(input, normalizedShape, weightOptional, biasOptional, eps);
  out.copy_(result);
  store(meanOutOptional, mean);
  store(rstdOutOptional, rstd);
}

void layer_norm_backward(const at::Tensor& gradOut, const at::Tensor& input, at::IntArrayRef normalizedShape,
                         const at::Tensor& mean, const at::Tensor& rstd, const std::optional<at::Tensor>& weightOptional,
                         const std::optional<at::Tensor>& biasOptional, at::IntArrayRef outputMask,
                         const std::optional<at::Tensor>& gradInputOut, const std::optional<at::Tensor>& gradWeightOut,
                         const std::optional<at::Tensor>& gradBiasOut) {
  const std::array<bool, 3> mask = flags<3>(outputMask);
#if defined(__x86_64__)
  const at::Tensor weight = or_undefined(weightOptional);
  const Rows rows = rows_of(input, normalizedShape);
  const at::Tensor for_input = mask[0] ? or_undefined(gradInputOut) : at::Tensor();
  const at::Tensor for_weight = mask[1] ? or_undefined(gradWeightOut) : at::Tensor();
  const at::Tensor for_bias = mask[2] ? or_undefined(gradBiasOut) : at::Tensor();
  if (rows.count != 0 && plain({gradOut, input, mean, rstd, weight, for_input, for_weight, for_bias}, input.scalar_type())) {
    return layer_norm_rows_backward(rows, gradOut, input, mean, rstd, weight, for_input, for_weight, for_bias);
  }
#endif
  const auto [input_grad, weight_grad, bias_grad] =
      at::native_layer_norm_backward(gradOut, input, normalizedShape, mean, rstd, weightOptional, biasOptional, mask);
  store(gradInputOut, input_grad);
  store(gradWeightOut, weight_grad);
  store(gradBiasOut, bias_grad);
}

void group_norm(const at::Tensor& self, const std::optional<at::Tensor>& gamma, const std::optional<at::Tensor>& beta, int64_t N,
                int64_t C, int64_t HxW, int64_t group, double eps, at::Tensor& out, at::Tensor& meanOut, at::Tensor& rstdOut) {
  const auto [result, mean, rstd] = at::native_group_norm(self, gamma, beta, N, C, HxW, group, eps);
  out.copy_(result);
  meanOut.copy_(mean);
  rstdOut.copy_(rstd);
}

void group_norm_backward(const at::Tensor& gradOut, const at::Tensor& input, const at::Tensor& mean, const at::Tensor& rstd,
                         const std::optional<at::Tensor>& gamma, int64_t N, int64_t C, int64_t HxW, int64_t group,
                         at::IntArrayRef outputMask, const std::optional<at::Tensor>& gradInput,
                         const std::optional<at::Tensor>& gradGammaOut, const std::optional<at::Tensor>& gradBetaOut) {
  const auto [for_input, for_gamma, for_beta] = at::native_group_norm_backward(
      gradOut.contiguous(), input.contiguous(), mean, rstd, gamma, N, C, HxW, group, flags<3>(outputMask));
  store(gradInput, for_input);
  store(gradGammaOut, for_gamma);
  store(gradBetaOut, for_beta);
}

// Half precision is computed in float, as ATen does.
void rms_norm(const at::Tensor& x, const at::Tensor& gamma, double epsilon, at::Tensor& yOut, at::Tensor& rstdOut) {
  const at::ScalarType type = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor values = x.to(type);
  const at::Tensor rstd = values.square().mean(last_dimensions(gamma), /*keepdim=*/true).add_(epsilon).rsqrt_();
  yOut.copy_(values.mul(rstd).mul_(gamma.to(type)));
  rstdOut.copy_(rstd.view_as(rstdOut));
}

void rms_norm_grad(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& rstd, const at::Tensor& gamma, at::Tensor& dxOut,
                   at::Tensor& dgammaOut) {
  const at::ScalarType type = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  std::vector<int64_t> shape = x.sizes().vec();
  for (int64_t dim = x.dim() - gamma.dim(); dim < x.dim(); ++dim) shape[size_t(dim)] = 1;
  const at::Tensor scale = rstd.to(type).view(shape);
  const at::Tensor normalized = x.to(type).mul(scale);
  const at::Tensor gradient = dy.to(type);
  const at::Tensor weighted = gradient.mul(gamma.to(type));
  const at::Tensor projection = weighted.mul(normalized).mean(last_dimensions(gamma), /*keepdim=*/true);
  dxOut.copy_(weighted.sub(normalized.mul(projection)).mul_(scale));
  dgammaOut.copy_(gradient.mul(normalized).sum_to_size(gamma.sizes()));
}

// In half precision the norm is rounded like `g`, so that a weight whose g equals its norm does not change.
void weight_norm(const at::Tensor& v, const at::Tensor& g, int64_t dim, at::Tensor& out, at::Tensor& norms) {
  if (v.numel() == 0) return;  // ATen's kernel divides by the number of rows
  if (at::isReducedFloatingType(v.scalar_type())) {
    const at::Tensor rounded = at::norm_except_dim(v, 2, dim);
    at::mul_out(out, v, g.div(rounded));
    norms.copy_(rounded);
    return;
  }
  const auto [weight, exact] = at::_weight_norm_interface(v.contiguous(), g.contiguous(), dim);
  out.copy_(weight);
  norms.copy_(exact);
}

// ATen's kernel reads its arguments as dense tensors.
void weight_norm_backward(const at::Tensor& gradW, const at::Tensor& savedV, const at::Tensor& savedG,
                          const at::Tensor& savedNorms, int64_t dim, at::Tensor& gradV, at::Tensor& gradG) {
  const auto [for_v, for_g] = at::_weight_norm_interface_backward(gradW.contiguous(), savedV.contiguous(), savedG.contiguous(),
                                                                  savedNorms.contiguous(), dim);
  gradV.copy_(for_v);
  gradG.copy_(for_g);
}

}  // namespace softnpu::ops::kernels
