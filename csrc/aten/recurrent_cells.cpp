// One step of an LSTM or a GRU, whose gates share a device call. Gradients that nobody asked for stay undefined.
#include <torch/library.h>

#include "aten/device_scope.h"
#include "aten/optional_tensor.h"
#include "aten/outputs.h"
#include "plugin/calls.h"

namespace torch_npu {
namespace {

std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_cell_backward(const OptionalTensor& grad_hy, const OptionalTensor& grad_cy,
                                                                  const at::Tensor& cx, const at::Tensor& cy,
                                                                  const at::Tensor& workspace, bool has_bias) {
  if (!is_given(grad_hy) && !is_given(grad_cy)) return {};
  const DeviceScope scope(cx);
  Output bias = sized({workspace.size(1)}, workspace.options());
  bias.wanted = has_bias;
  auto [grad_gates, grad_cx, grad_bias] =
      allocate(Outputs<3>{sized(workspace.sizes(), workspace.options()), sized(cx.sizes(), cx.options()), bias});
  call::aclnnThnnFusedLstmCellBackward(grad_hy, grad_cy, cx, cy, workspace, has_bias, grad_gates, grad_cx, grad_bias);
  return {std::move(grad_gates), std::move(grad_cx), std::move(grad_bias)};
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
  m.impl("_thnn_fused_lstm_cell_backward_impl", TORCH_FN(lstm_cell_backward));
  m.impl("_thnn_fused_gru_cell", TORCH_FN(gru_cell));
  m.impl("_thnn_fused_gru_cell_backward", TORCH_FN(gru_cell_backward));
}

}  // namespace torch_npu
