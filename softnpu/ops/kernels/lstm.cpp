// LSTMs of several layers, computed in float. Lists have one tensor per layer and direction; the directions of a layer follow
// each other. Tensors for the backward pass are [steps, batch, hidden]. Without them oneDNN computes a direction. Packed
// sequences, projections and dropout between layers are not offered.
#include <ATen/Context.h>
#include <ATen/ops/add.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mkldnn_rnn_layer.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>

#include "kernels.h"
#include "ops/engine/loops.h"

namespace softnpu::ops::kernels {
namespace {

using engine::LstmStep;

at::Tensor in_float(const at::Tensor& tensor) { return tensor.to(at::kFloat).contiguous(); }

void check_weights(at::TensorList params, int64_t first, bool has_bias, int64_t hidden) {
  const at::IntArrayRef input = params[first].sizes(), recurrent = params[first + 1].sizes();
  bool fits = input.size() == 2 && input[0] == 4 * hidden && recurrent == at::IntArrayRef({4 * hidden, hidden});
  for (int64_t bias = first + 2; has_bias && bias < first + 4; ++bias) {
    fits &= params[bias].sizes() == at::IntArrayRef(4 * hidden);
  }
  TORCH_CHECK(fits, "weights of shapes ", input, " and ", recurrent, " or their biases do not fit ", hidden, " hidden units");
}

struct Weights {
  Weights(at::TensorList params, int64_t index, bool has_bias, int64_t size) {
    const int64_t first = index * (has_bias ? 4 : 2);
    check_weights(params, first, has_bias, size);
    input = in_float(params[first]);
    hidden = in_float(params[first + 1]);
    if (has_bias) bias = in_float(params[first + 2]).add(params[first + 3]);
  }
  at::Tensor input, hidden, bias;
};

// The tensors that a direction keeps for the backward pass. Float tensors are written in place, others through a copy in float.
struct Kept {
  at::Tensor input, forget, cell, output, hidden, state, squashed;

  LstmStep at(int64_t step) const {
    const auto row = [step](const at::Tensor& tensor) {
      return tensor.defined() ? tensor.data_ptr<float>() + step * tensor.stride(0) : nullptr;
    };
    return {row(input), row(forget), row(cell), row(output), row(hidden), row(state), row(squashed)};
  }
};

// The states before the first step must have the shapes of those after the last step.
void check_states(at::TensorList hx, const at::Tensor& after) {
  TORCH_CHECK(hx[0].sizes() == after.sizes() && hx[1].sizes() == after.sizes(), "states of shapes ", hx[0].sizes(), " and ",
              hx[1].sizes(), " are given, ", after.sizes(), " is expected");
}

void refuse_what_is_missing(const std::optional<at::Tensor>& batch_sizes, at::TensorList params, bool has_bias, int64_t layers,
                            int64_t directions, double dropout, bool train) {
  TORCH_CHECK(!batch_sizes.has_value(), "packed sequences are not offered");
  TORCH_CHECK(params.size() == size_t(layers * directions * (has_bias ? 4 : 2)),
              "the number of parameters does not fit; projections ", "are not offered");
  TORCH_CHECK(layers == 1 || dropout == 0 || !train, "dropout between layers is not offered");
}

// Returns the hidden states, [steps, batch, hidden]. `kept.hidden` and `kept.state` must be defined.
void run_direction(const at::Tensor& x, const Weights& weights, const at::Tensor& hx, const at::Tensor& cx, bool reverse,
                   const Kept& kept) {
  const int64_t steps = x.size(0), batch = x.size(1), hidden = hx.size(1);
  const at::Tensor gates = at::linear(x, weights.input, weights.bias);
  const at::Tensor transposed = weights.hidden.t();
  at::Tensor h = hx;
  const float* state = cx.const_data_ptr<float>();
  for (int64_t index = 0; index < steps; ++index) {
    const int64_t step = reverse ? steps - 1 - index : index;
    const at::Tensor gate = gates.select(0, step).addmm_(h, transposed);
    const LstmStep to = kept.at(step);
    engine::loops().lstm_forward(gate.const_data_ptr<float>(), state, to, batch, hidden);
    h = kept.hidden.select(0, step);
    state = to.state;
  }
}

// The hidden states of a direction that keeps nothing for the backward pass, by oneDNN as in ATen's LSTM.
at::Tensor run_inference(const at::Tensor& x, at::TensorList params, int64_t index, bool has_bias, const at::Tensor& hx,
                         const at::Tensor& cx, bool reverse, const at::Tensor& hy, const at::Tensor& cy) {
  constexpr int64_t kLstm = 2;  // the number of an LSTM layer in ATen
  const int64_t first = index * (has_bias ? 4 : 2), hidden = hx.size(1);
  check_weights(params, first, has_bias, hidden);
  const at::Tensor none = at::zeros({4 * hidden}, x.options());
  const auto weight = [&](int64_t offset) { return in_float(params[first + offset]); };
  const auto [output, last_h, last_c, workspace] =
      at::mkldnn_rnn_layer(x, weight(0), weight(1), has_bias ? weight(2) : none, has_bias ? weight(3) : none, hx, cx, reverse,
                           /*batch_sizes=*/{}, kLstm, hidden, /*num_layers=*/1, has_bias, /*bidirectional=*/false,
                           /*batch_first=*/false, /*train=*/false);
  hy.copy_(last_h.view_as(hy));
  cy.copy_(last_c.view_as(cy));
  return output;
}

struct DirectionGradients {
  at::Tensor input, hx, cx, weight_input, weight_hidden, bias;
};

DirectionGradients run_backward(const at::Tensor& x, const Weights& weights, const at::Tensor& hx, const at::Tensor& cx,
                                bool reverse, const Kept& kept, const at::Tensor& grad_output, const at::Tensor& grad_hy,
                                const at::Tensor& grad_cy) {
  const int64_t steps = x.size(0), batch = x.size(1), hidden = hx.size(1);
  const at::Tensor grad_gates = at::empty({steps, batch, 4 * hidden}, x.options());
  at::Tensor grad_hidden = grad_hy.clone();
  const at::Tensor grad_state = grad_cy.clone();
  for (int64_t index = steps - 1; index >= 0; --index) {
    const int64_t step = reverse ? steps - 1 - index : index;
    const int64_t before = reverse ? step + 1 : step - 1;
    const float* state_before = index == 0 ? cx.const_data_ptr<float>() : kept.at(before).state;
    const at::Tensor gate = grad_gates.select(0, step);
    engine::loops().lstm_backward(kept.at(step), state_before, grad_output.const_data_ptr<float>() + step * batch * hidden,
                                  grad_hidden.const_data_ptr<float>(), grad_state.data_ptr<float>(), gate.data_ptr<float>(),
                                  batch, hidden);
    at::mm_out(grad_hidden, gate, weights.hidden);
  }
  const at::Tensor rest = kept.hidden.narrow(0, reverse ? 1 : 0, steps - 1);
  const at::Tensor before = reverse ? at::cat({rest, hx.unsqueeze(0)}) : at::cat({hx.unsqueeze(0), rest});
  const at::Tensor flat = grad_gates.view({steps * batch, 4 * hidden});
  DirectionGradients gradients;
  gradients.input = flat.mm(weights.input).view(x.sizes());
  gradients.hx = grad_hidden;
  gradients.cx = grad_state;
  gradients.weight_input = flat.t().mm(x.view({steps * batch, -1}));
  gradients.weight_hidden = flat.t().mm(before.view({steps * batch, hidden}));
  if (weights.bias.defined()) gradients.bias = flat.sum(0);
  return gradients;
}

}  // namespace

void lstm(const at::Tensor& input, at::TensorList params, at::TensorList hx, const std::optional<at::Tensor>& batchSizes,
          bool hasBias, int64_t numLayers, double dropout, bool train, bool bidirectional, bool batchFirst, at::Tensor& output,
          at::Tensor& hy, at::Tensor& cy, at::TensorList iOut, at::TensorList jOut, at::TensorList fOut, at::TensorList oOut,
          at::TensorList hOut, at::TensorList cOut, at::TensorList tanhCOut) {
  const int64_t directions = bidirectional ? 2 : 1;
  refuse_what_is_missing(batchSizes, params, hasBias, numLayers, directions, dropout, train);
  check_states(hx, hy);
  at::Tensor x = in_float(batchFirst ? input.transpose(0, 1) : input);
  const at::Tensor h0 = in_float(hx[0]), c0 = in_float(hx[1]);
  const int64_t hidden = h0.size(2);
  const auto fresh = [&] { return at::empty({x.size(0), x.size(1), hidden}, x.options()); };
  for (int64_t layer = 0; layer < numLayers; ++layer) {
    at::Tensor results[2];
    for (int64_t direction = 0; direction < directions; ++direction) {
      const int64_t index = layer * directions + direction;
      const at::Tensor h_before = h0.select(0, index), c_before = c0.select(0, index);
      if (hOut.empty() && at::globalContext().hasMKLDNN() && at::globalContext().userEnabledMkldnn()) {
        results[direction] = run_inference(x, params, index, hasBias, h_before, c_before, direction == 1, hy.select(0, index),
                                           cy.select(0, index));
        continue;
      }
      const auto place = [&](at::TensorList list) {
        if (list.empty()) return at::Tensor();
        return list[index].scalar_type() == at::kFloat && list[index].is_contiguous() ? list[index] : fresh();
      };
      Kept kept{place(iOut), place(fOut), place(jOut), place(oOut), place(hOut), place(cOut), place(tanhCOut)};
      if (!kept.hidden.defined()) kept.hidden = fresh();
      if (!kept.state.defined()) kept.state = fresh();
      run_direction(x, Weights(params, index, hasBias, hidden), h_before, c_before, direction == 1, kept);
      const auto give = [&](at::TensorList list, const at::Tensor& result) {
        if (!list.empty() && !list[index].is_same(result)) list[index].copy_(result);
      };
      give(iOut, kept.input), give(jOut, kept.cell), give(fOut, kept.forget), give(oOut, kept.output);
      give(hOut, kept.hidden), give(cOut, kept.state), give(tanhCOut, kept.squashed);
      const int64_t last = direction == 1 ? 0 : x.size(0) - 1;
      hy.select(0, index).copy_(kept.hidden.select(0, last));
      cy.select(0, index).copy_(kept.state.select(0, last));
      results[direction] = kept.hidden;
    }
    x = directions == 2 ? at::cat({results[0], results[1]}, 2) : results[0];
  }
  output.copy_(batchFirst ? x.transpose(0, 1) : x);
}

void lstm_backward(const at::Tensor& input, at::TensorList hx, at::TensorList params, const at::Tensor& dy, const at::Tensor& dh,
                   const at::Tensor& dc, at::TensorList i, at::TensorList g, at::TensorList f, at::TensorList o, at::TensorList h,
                   at::TensorList c, at::TensorList tanhc, const std::optional<at::Tensor>& batchSizesOptional, bool hasBias,
                   int64_t numLayers, double dropout, bool train, bool bidirectional, bool batchFirst, at::Tensor& dxOut,
                   at::Tensor& dhPrevOut, at::Tensor& dcPrevOut, at::TensorList dparamsOut) {
  const int64_t directions = bidirectional ? 2 : 1;
  refuse_what_is_missing(batchSizesOptional, params, hasBias, numLayers, directions, dropout, train);
  check_states(hx, dh);
  const at::Tensor x = in_float(batchFirst ? input.transpose(0, 1) : input);
  const at::Tensor h0 = in_float(hx[0]), c0 = in_float(hx[1]), grad_hy = in_float(dh), grad_cy = in_float(dc);
  const int64_t hidden = h0.size(2);
  at::Tensor grad = in_float(batchFirst ? dy.transpose(0, 1) : dy);
  for (int64_t layer = numLayers - 1; layer >= 0; --layer) {
    const auto kept_of = [&](int64_t index) {
      return Kept{in_float(i[index]), in_float(f[index]), in_float(g[index]),    in_float(o[index]),
                  in_float(h[index]), in_float(c[index]), in_float(tanhc[index])};
    };
    at::Tensor layer_input = x;
    if (layer > 0) {
      const int64_t below = (layer - 1) * directions;
      layer_input = directions == 2 ? at::cat({in_float(h[below]), in_float(h[below + 1])}, 2) : in_float(h[below]);
    }
    at::Tensor grad_input;
    for (int64_t direction = 0; direction < directions; ++direction) {
      const int64_t index = layer * directions + direction;
      const DirectionGradients gradients =
          run_backward(layer_input, Weights(params, index, hasBias, hidden), h0.select(0, index), c0.select(0, index),
                       direction == 1, kept_of(index), grad.narrow(2, direction * hidden, hidden).contiguous(),
                       grad_hy.select(0, index), grad_cy.select(0, index));
      grad_input = direction == 0 ? gradients.input : grad_input.add_(gradients.input);
      dhPrevOut.select(0, index).copy_(gradients.hx);
      dcPrevOut.select(0, index).copy_(gradients.cx);
      const int64_t first = index * (hasBias ? 4 : 2);
      dparamsOut[first].copy_(gradients.weight_input);
      dparamsOut[first + 1].copy_(gradients.weight_hidden);
      if (hasBias) dparamsOut[first + 2].copy_(gradients.bias), dparamsOut[first + 3].copy_(gradients.bias);
    }
    grad = grad_input;
  }
  dxOut.copy_(batchFirst ? grad.transpose(0, 1) : grad);
}

}  // namespace softnpu::ops::kernels
