// Backward passes and cells that return fewer tensors than they could: what nobody asked for stays undefined.
#include <ATen/ops/native_batch_norm.h>
#include <ATen/ops/native_batch_norm_backward.h>
#include <torch/library.h>

#include "aten/cube_math.h"
#include "aten/device_scope.h"
#include "aten/infer.h"
#include "plugin/calls.h"

namespace torch_npu {
namespace {

using ThreeTensors = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

ThreeTensors convolution_backward(const at::Tensor& grad_output, const at::Tensor& input, const at::Tensor& weight,
                                  at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
                                  at::IntArrayRef output_padding, int64_t groups, std::array<bool, 3> output_mask) {
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

at::Tensor embedding_dense_backward(const at::Tensor& grad_output, const at::Tensor& indices, int64_t num_weights,
                                    int64_t padding_idx, bool scale_grad_by_freq) {
  TORCH_CHECK(indices.scalar_type() == at::kLong || indices.scalar_type() == at::kInt,
              "indices of an embedding are int64 or int32, ", "but got ", indices.scalar_type());
  const DeviceScope scope(grad_output);
  at::Tensor grad_weight = empty({num_weights, grad_output.size(-1)}, grad_output.dtype());
  call::aclnnEmbeddingDenseBackward(grad_output, indices, static_cast<uint64_t>(num_weights), static_cast<uint64_t>(padding_idx),
                                    scale_grad_by_freq, grad_weight);
  return grad_weight;
}

ThreeTensors lstm_cell_backward(const OptionalTensor& grad_hy, const OptionalTensor& grad_cy, const at::Tensor& cx,
                                const at::Tensor& cy, const at::Tensor& workspace, bool has_bias) {
  if (!is_given(grad_hy) && !is_given(grad_cy)) return {};
  const DeviceScope scope(cx);
  Output bias = sized({workspace.size(1)}, workspace.options());
  bias.wanted = has_bias;
  auto [grad_gates, grad_cx, grad_bias] =
      allocate(Outputs<3>{sized(workspace.sizes(), workspace.options()), sized(cx.sizes(), cx.options()), bias});
  call::aclnnThnnFusedLstmCellBackward(grad_hy, grad_cy, cx, cy, workspace, has_bias, grad_gates, grad_cx, grad_bias);
  return {std::move(grad_gates), std::move(grad_cx), std::move(grad_bias)};
}

// ---- batch normalisation under its newer names, with a reserve that nothing is kept in ----

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

// The workspace holds reset, input and new gate, the old state, and the hidden part of the new gate.
constexpr int64_t kGruStates = 5, kGruGates = 3;

std::tuple<at::Tensor, at::Tensor> gru_cell(const at::Tensor& input_gates, const at::Tensor& hidden_gates, const at::Tensor& hx,
                                            const OptionalTensor& input_bias, const OptionalTensor& hidden_bias) {
  const DeviceScope scope(hx);
  auto [hy, workspace] =
      allocate(Outputs<2>{sized(hx.sizes(), hx.options()), sized({hx.size(0), hx.size(1) * kGruStates}, hx.options())});
  call::aclnnSoftGruCell(input_gates, hidden_gates, hx, input_bias, hidden_bias, hy, workspace);
  return {std::move(hy), std::move(workspace)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> gru_cell_backward(const at::Tensor& grad_hy,
                                                                                         const at::Tensor& workspace,
                                                                                         bool has_bias) {
  const DeviceScope scope(grad_hy);
  const int64_t width = grad_hy.size(1) * kGruGates;
  const Output gates = sized({grad_hy.size(0), width}, grad_hy.options());
  Output bias = sized({width}, grad_hy.options());
  bias.wanted = has_bias;
  auto [grad_input, grad_hidden, grad_hx, grad_input_bias, grad_hidden_bias] =
      allocate(Outputs<5>{gates, gates, sized(grad_hy.sizes(), grad_hy.options()), bias, bias});
  call::aclnnSoftGruCellBackward(grad_hy, workspace, has_bias, grad_input, grad_hidden, grad_hx, grad_input_bias,
                                 grad_hidden_bias);
  return {std::move(grad_input), std::move(grad_hidden), std::move(grad_hx), std::move(grad_input_bias),
          std::move(grad_hidden_bias)};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("convolution_backward_overrideable", TORCH_FN(convolution_backward));
  m.impl("_batch_norm_with_update", TORCH_FN(batch_norm_with_update));
  m.impl("_batch_norm_with_update.out", TORCH_FN(batch_norm_with_update_out));
  m.impl("batch_norm_backward", TORCH_FN(batch_norm_backward));
  m.impl("embedding_dense_backward", TORCH_FN(embedding_dense_backward));
  m.impl("_thnn_fused_lstm_cell_backward_impl", TORCH_FN(lstm_cell_backward));
  m.impl("_thnn_fused_gru_cell", TORCH_FN(gru_cell));
  m.impl("_thnn_fused_gru_cell_backward", TORCH_FN(gru_cell_backward));
}

}  // namespace torch_npu
