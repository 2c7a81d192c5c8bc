// One step of an LSTM or a GRU: one device call for all gates. Gradients that are not requested are undefined. PyTorch has no
// forward-mode derivative of such a step, so a step whose operand has a tangent is composed of operators that have one.
#include <ATen/TensorOperators.h>
#include <ATen/ops/_thnn_fused_gru_cell_ops.h>
#include <ATen/ops/_thnn_fused_lstm_cell_ops.h>
#include <ATen/ops/cat.h>
#include <torch/library.h>

#include "aten/machinery/autograd_bypass.h"
#include "aten/machinery/device_check.h"
#include "aten/machinery/device_scope.h"
#include "aten/machinery/optional_tensor.h"
#include "aten/machinery/outputs.h"
#include "plugin/calls.h"

namespace torch_npu {
namespace {

bool has_tangent(const at::Tensor& tensor) { return tensor.defined() && tensor._fw_grad(/*level=*/0).defined(); }
bool has_tangent(const OptionalTensor& tensor) { return tensor.has_value() && has_tangent(*tensor); }

at::Tensor plus(const at::Tensor& gates, const OptionalTensor& bias) { return is_given(bias) ? gates + *bias : gates; }

// ---- LSTM ----

std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_cell(const at::Tensor& input_gates, const at::Tensor& hidden_gates,
                                                         const at::Tensor& cx, const OptionalTensor& input_bias,
                                                         const OptionalTensor& hidden_bias) {
  const DeviceScope scope(cx);
  const Output state = sized(cx.sizes(), cx.options());
  auto [hy, cy, workspace] = allocate(Outputs<3>{state, state, sized(input_gates.sizes(), input_gates.options())});
  call::aclnnThnnFusedLstmCell(input_gates, hidden_gates, cx, input_bias, hidden_bias, hy, cy, workspace);
  return {std::move(hy), std::move(cy), std::move(workspace)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> composed_lstm_cell(const at::Tensor& input_gates, const at::Tensor& hidden_gates,
                                                                  const at::Tensor& cx, const OptionalTensor& input_bias,
                                                                  const OptionalTensor& hidden_bias) {
  const auto gates = (plus(input_gates, input_bias) + plus(hidden_gates, hidden_bias)).chunk(4, 1);
  const at::Tensor input = gates[0].sigmoid(), forget = gates[1].sigmoid(), cell = gates[2].tanh(), output = gates[3].sigmoid();
  at::Tensor cy = forget * cx + input * cell;
  at::Tensor hy = output * cy.tanh();
  return {std::move(hy), std::move(cy), at::cat({input, forget, cell, output}, 1)};
}

const AutogradKernel lstm_cell_kernel("aten::_thnn_fused_lstm_cell", "");

std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_cell_autograd(c10::DispatchKeySet keys, const at::Tensor& input_gates,
                                                                  const at::Tensor& hidden_gates, const at::Tensor& cx,
                                                                  const OptionalTensor& input_bias,
                                                                  const OptionalTensor& hidden_bias) {
  if (lstm_cell_kernel.may_be_skipped(keys, input_gates, hidden_gates, cx, input_bias, hidden_bias)) {
    const at::AutoDispatchBelowADInplaceOrView below;
    return at::_ops::_thnn_fused_lstm_cell::redispatch(kDeviceKeys, input_gates, hidden_gates, cx, input_bias, hidden_bias);
  }
  if (has_tangent(input_gates) || has_tangent(hidden_gates) || has_tangent(cx) || has_tangent(input_bias) ||
      has_tangent(hidden_bias)) {
    return composed_lstm_cell(input_gates, hidden_gates, cx, input_bias, hidden_bias);
  }
  return at::_ops::_thnn_fused_lstm_cell::redispatch(with_autograd(keys), input_gates, hidden_gates, cx, input_bias, hidden_bias);
}

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

// ---- GRU ----

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

std::tuple<at::Tensor, at::Tensor> composed_gru_cell(const at::Tensor& input_gates, const at::Tensor& hidden_gates,
                                                     const at::Tensor& hx, const OptionalTensor& input_bias,
                                                     const OptionalTensor& hidden_bias) {
  const auto from_input = plus(input_gates, input_bias).chunk(kGruGates, 1);
  const auto from_hidden = plus(hidden_gates, hidden_bias).chunk(kGruGates, 1);
  const at::Tensor reset = (from_input[0] + from_hidden[0]).sigmoid(), input = (from_input[1] + from_hidden[1]).sigmoid();
  const at::Tensor fresh = (from_input[2] + reset * from_hidden[2]).tanh();
  return {(hx - fresh) * input + fresh, at::cat({reset, input, fresh, hx, from_hidden[2]}, 1)};
}

const AutogradKernel gru_cell_kernel("aten::_thnn_fused_gru_cell", "");

std::tuple<at::Tensor, at::Tensor> gru_cell_autograd(c10::DispatchKeySet keys, const at::Tensor& input_gates,
                                                     const at::Tensor& hidden_gates, const at::Tensor& hx,
                                                     const OptionalTensor& input_bias, const OptionalTensor& hidden_bias) {
  if (gru_cell_kernel.may_be_skipped(keys, input_gates, hidden_gates, hx, input_bias, hidden_bias)) {
    const at::AutoDispatchBelowADInplaceOrView below;
    return at::_ops::_thnn_fused_gru_cell::redispatch(kDeviceKeys, input_gates, hidden_gates, hx, input_bias, hidden_bias);
  }
  if (has_tangent(input_gates) || has_tangent(hidden_gates) || has_tangent(hx) || has_tangent(input_bias) ||
      has_tangent(hidden_bias)) {
    return composed_gru_cell(input_gates, hidden_gates, hx, input_bias, hidden_bias);
  }
  return at::_ops::_thnn_fused_gru_cell::redispatch(with_autograd(keys), input_gates, hidden_gates, hx, input_bias, hidden_bias);
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
  m.impl("_thnn_fused_lstm_cell", TORCH_FN(DeviceChecked<&lstm_cell>::call));
  m.impl("_thnn_fused_lstm_cell_backward_impl", TORCH_FN(lstm_cell_backward));
  m.impl("_thnn_fused_gru_cell", TORCH_FN(DeviceChecked<&gru_cell>::call));
  m.impl("_thnn_fused_gru_cell_backward", TORCH_FN(gru_cell_backward));
}

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  m.impl("_thnn_fused_lstm_cell", TORCH_FN(lstm_cell_autograd));
  m.impl("_thnn_fused_gru_cell", TORCH_FN(gru_cell_autograd));
}

}  // namespace torch_npu
