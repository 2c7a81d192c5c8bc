// Cells of recurrent layers. The forward pass stores the values for the derivatives in a workspace:
//   LSTM [batch, 4 * hidden]: the gates after their activation, in the order input, forget, cell, output
//   GRU  [batch, 5 * hidden]: reset, update, new (after activation), the previous state, and the hidden part of the new gate
#include <ATen/ops/add.h>
#include <ATen/ops/addcmul.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/sigmoid_backward.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/tanh_backward.h>
#include <ATen/ops/zeros_like.h>

#include "kernels.h"
#include "ops/kernels/result.h"

namespace softnpu::ops::kernels {
namespace {

// Part `index` of `count` equal columns.
at::Tensor part(const at::Tensor& tensor, int64_t index, int64_t count) {
  const int64_t width = tensor.size(1) / count;
  return tensor.narrow(1, index * width, width);
}

at::Tensor plus(const at::Tensor& gates, const std::optional<at::Tensor>& bias) { return bias ? gates.add(*bias) : gates; }

}  // namespace

void lstm_cell(const at::Tensor& inputGates, const at::Tensor& hiddenGates, const at::Tensor& cx,
               const std::optional<at::Tensor>& inputBiasOptional, const std::optional<at::Tensor>& hiddenBiasOptional,
               at::Tensor& hyOut, at::Tensor& cyOut, at::Tensor& storageOut) {
  at::Tensor gates = storageOut.view_as(inputGates);
  at::add_out(gates, inputGates, hiddenGates);
  if (inputBiasOptional) gates.add_(*inputBiasOptional);
  if (hiddenBiasOptional) gates.add_(*hiddenBiasOptional);
  gates.narrow(1, 0, gates.size(1) / 2).sigmoid_();
  const at::Tensor cell = part(gates, 2, 4).tanh_();
  const at::Tensor output = part(gates, 3, 4).sigmoid_();
  at::mul_out(cyOut, part(gates, 1, 4), cx);
  cyOut.addcmul_(part(gates, 0, 4), cell);
  at::tanh_out(hyOut, cyOut);
  hyOut.mul_(output);
}

void lstm_cell_backward(const std::optional<at::Tensor>& gradHyOptional, const std::optional<at::Tensor>& gradCOptional,
                        const at::Tensor& cx, const at::Tensor& cy, const at::Tensor& storage, bool hasBias,
                        at::Tensor& gradGatesOut, at::Tensor& gradCxOut, const std::optional<at::Tensor>& gradBiasOut) {
  const at::Tensor gates = storage.view_as(gradGatesOut);
  const at::Tensor input = part(gates, 0, 4);
  const at::Tensor forget = part(gates, 1, 4);
  const at::Tensor cell = part(gates, 2, 4);
  const at::Tensor output = part(gates, 3, 4);
  const at::Tensor squashed = at::tanh(cy);
  at::Tensor grad_cell_state = gradCOptional ? gradCOptional->clone() : at::zeros_like(cy);
  at::Tensor grad_output_gate = part(gradGatesOut, 3, 4);
  if (gradHyOptional) {
    grad_cell_state.add_(at::tanh_backward(gradHyOptional->mul(output), squashed));
    at::sigmoid_backward_out(grad_output_gate, gradHyOptional->mul(squashed), output);
  } else {
    grad_output_gate.zero_();
  }
  at::Tensor grad_input_gate = part(gradGatesOut, 0, 4);
  at::Tensor grad_forget_gate = part(gradGatesOut, 1, 4);
  at::Tensor grad_cell_gate = part(gradGatesOut, 2, 4);
  at::sigmoid_backward_out(grad_input_gate, grad_cell_state.mul(cell), input);
  at::sigmoid_backward_out(grad_forget_gate, grad_cell_state.mul(cx), forget);
  at::tanh_backward_out(grad_cell_gate, grad_cell_state.mul(input), cell);
  at::mul_out(gradCxOut, grad_cell_state, forget);
  if (hasBias && wanted(gradBiasOut)) store(gradBiasOut, gradGatesOut.sum(0).view_as(*gradBiasOut));
}

void gru_cell(const at::Tensor& inputGates, const at::Tensor& hiddenGates, const at::Tensor& hx,
              const std::optional<at::Tensor>& inputBias, const std::optional<at::Tensor>& hiddenBias, at::Tensor& hyOut,
              at::Tensor& storageOut) {
  const at::Tensor from_input = plus(inputGates, inputBias);
  const at::Tensor from_hidden = plus(hiddenGates, hiddenBias);
  const at::Tensor kept = storageOut.view({hx.size(0), 5 * hx.size(1)});
  const at::Tensor reset = part(kept, 0, 5).copy_(part(from_input, 0, 3)).add_(part(from_hidden, 0, 3)).sigmoid_();
  const at::Tensor update = part(kept, 1, 5).copy_(part(from_input, 1, 3)).add_(part(from_hidden, 1, 3)).sigmoid_();
  const at::Tensor hidden_part = part(kept, 4, 5).copy_(part(from_hidden, 2, 3));
  const at::Tensor fresh = part(kept, 2, 5).copy_(part(from_input, 2, 3)).addcmul_(reset, hidden_part).tanh_();
  part(kept, 3, 5).copy_(hx);
  at::sub_out(hyOut, hx, fresh);
  hyOut.mul_(update).add_(fresh);
}

void gru_cell_backward(const at::Tensor& gradHy, const at::Tensor& storage, bool hasBias, at::Tensor& gradInputGates,
                       at::Tensor& gradHiddenGates, at::Tensor& gradHx, const std::optional<at::Tensor>& gradInputBias,
                       const std::optional<at::Tensor>& gradHiddenBias) {
  const at::Tensor kept = storage.view({gradHy.size(0), 5 * gradHy.size(1)});
  const at::Tensor reset = part(kept, 0, 5);
  const at::Tensor update = part(kept, 1, 5);
  const at::Tensor fresh = part(kept, 2, 5);
  const at::Tensor previous = part(kept, 3, 5);
  const at::Tensor hidden_part = part(kept, 4, 5);
  const at::Tensor grad_update = at::sigmoid_backward(gradHy.mul(previous.sub(fresh)), update);
  const at::Tensor grad_fresh = at::tanh_backward(gradHy.mul(update.neg().add_(1)), fresh);
  const at::Tensor grad_reset = at::sigmoid_backward(grad_fresh.mul(hidden_part), reset);
  at::mul_out(gradHx, gradHy, update);
  for (const at::Tensor& gates : {gradInputGates, gradHiddenGates}) {
    part(gates, 0, 3).copy_(grad_reset);
    part(gates, 1, 3).copy_(grad_update);
  }
  part(gradInputGates, 2, 3).copy_(grad_fresh);
  part(gradHiddenGates, 2, 3).copy_(grad_fresh.mul(reset));
  if (!hasBias) return;
  if (wanted(gradInputBias)) store(gradInputBias, gradInputGates.sum(0).view_as(*gradInputBias));
  if (wanted(gradHiddenBias)) store(gradHiddenBias, gradHiddenGates.sum(0).view_as(*gradHiddenBias));
}

}  // namespace softnpu::ops::kernels
