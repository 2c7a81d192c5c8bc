// torch.lstm over padded sequences: one device call per layer, forward and backward. PyTorch's loop over cells computes all other
// cases: packed sequences, projections, float64, forward-mode derivatives.
#include <ATen/autocast_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/lstm_native.h>
#include <ATen/ops/lstm_ops.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "aten/machinery/allocate.h"
#include "aten/machinery/autograd_bypass.h"
#include "aten/machinery/device_scope.h"
#include "aten/machinery/dispatch_entry.h"
#include "plugin/calls.h"

namespace torch_npu {
namespace {

using torch::autograd::variable_list;
using ThreeTensors = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

constexpr int64_t kDirection = 2;  // parameters of one direction: two weights
constexpr int64_t kBiased = 4;     // and two biases
constexpr size_t kKept = 7;        // lists that the backward pass needs: i, j, f, o, h, c, tanh(c)

struct Layer {
  bool has_biases, bidirectional;

  int64_t directions() const { return bidirectional ? 2 : 1; }
  int64_t params() const { return directions() * (has_biases ? kBiased : kDirection); }
};

// Appends the kKept lists to `kept` unless it is null.
ThreeTensors run(const Layer& layer, const at::Tensor& input, const at::Tensor& hx, const at::Tensor& cx, at::TensorList params,
                 variable_list* kept) {
  const DeviceScope scope(input);
  const int64_t steps = input.size(0), batch = input.size(1), hidden = hx.size(2);
  at::Tensor output = empty({steps, batch, hidden * layer.directions()}, input.dtype());
  at::Tensor hy = empty(hx.sizes(), hx.dtype()), cy = empty(cx.sizes(), cx.dtype());
  std::array<variable_list, kKept> lists;
  if (kept != nullptr) {
    for (variable_list& list : lists) {
      for (int64_t index = 0; index < layer.directions(); ++index) list.push_back(empty({steps, batch, hidden}, input.dtype()));
    }
  }
  auto& [i, j, f, o, h, c, tanh_c] = lists;
  call::aclnnLSTM(input, params, variable_list{hx, cx}, std::nullopt, layer.has_biases, /*numLayers=*/1, /*dropout=*/0.0,
                  kept != nullptr, layer.bidirectional, /*batchFirst=*/false, output, hy, cy, i, j, f, o, h, c, tanh_c);
  if (kept != nullptr) {
    for (const variable_list& list : lists) kept->insert(kept->end(), list.begin(), list.end());
  }
  return {std::move(output), std::move(hy), std::move(cy)};
}

// Gradients of input, hx, cx and the parameters.
variable_list run_backward(const Layer& layer, const at::Tensor& input, const at::Tensor& hx, const at::Tensor& cx,
                           at::TensorList params, at::TensorList kept, const variable_list& grads) {
  const DeviceScope scope(input);
  variable_list results{empty(input.sizes(), input.dtype()), empty(hx.sizes(), hx.dtype()), empty(cx.sizes(), cx.dtype())};
  for (const at::Tensor& param : params) results.push_back(empty(param.sizes(), param.dtype()));
  const auto list = [&](size_t index) { return kept.slice(index * layer.directions(), layer.directions()); };
  call::aclnnLstmBackward(input, variable_list{hx, cx}, params, grads[0], grads[1], grads[2], list(0), list(1), list(2), list(3),
                          list(4), list(5), list(6), std::nullopt, layer.has_biases, /*numLayers=*/1, /*dropout=*/0.0,
                          /*train=*/true, layer.bidirectional, /*batchFirst=*/false, /*outputMask=*/std::nullopt, results[0],
                          results[1], results[2], at::TensorList(results).slice(3));
  return results;
}

class LstmLayer : public torch::autograd::Function<LstmLayer> {
 public:
  static variable_list forward(torch::autograd::AutogradContext* context, const at::Tensor& input, const at::Tensor& hx,
                               const at::Tensor& cx, at::TensorList params, bool has_biases, bool bidirectional) {
    variable_list saved{input, hx, cx};
    saved.insert(saved.end(), params.begin(), params.end());
    auto [output, hy, cy] = run({has_biases, bidirectional}, input, hx, cx, params, &saved);
    context->save_for_backward(std::move(saved));
    context->saved_data["has_biases"] = has_biases;
    context->saved_data["bidirectional"] = bidirectional;
    return {std::move(output), std::move(hy), std::move(cy)};
  }

  static variable_list backward(torch::autograd::AutogradContext* context, variable_list grads) {
    const Layer layer{context->saved_data["has_biases"].toBool(), context->saved_data["bidirectional"].toBool()};
    const variable_list saved = context->get_saved_variables();
    const at::TensorList tensors(saved);
    const at::TensorList params = tensors.slice(3, layer.params());
    variable_list results = at::GradMode::is_enabled() ? differentiable(layer, tensors.slice(0, 3 + layer.params()), grads)
                                                       : run_backward(layer, saved[0], saved[1], saved[2], params,
                                                                      tensors.slice(3 + layer.params()), grads);
    results.resize(results.size() + 2);  // has_biases and bidirectional have no gradient
    return results;
  }

 private:
  // Gradients of gradients: the layer is computed again cell by cell.
  static variable_list differentiable(const Layer& layer, at::TensorList inputs, const variable_list& grads) {
    const auto [output, hy, cy] = at::native::lstm(inputs[0], inputs.slice(1, 2), inputs.slice(3), layer.has_biases, 1, 0.0, true,
                                                   layer.bidirectional, /*batch_first=*/false);
    variable_list wanted;
    for (const at::Tensor& input : inputs) {
      if (input.requires_grad()) wanted.push_back(input);
    }
    const variable_list found = torch::autograd::grad({output, hy, cy}, wanted, grads, /*retain_graph=*/true,
                                                      /*create_graph=*/true, /*allow_unused=*/true);
    variable_list results;
    size_t next = 0;
    for (const at::Tensor& input : inputs) results.push_back(input.requires_grad() ? found[next++] : at::Tensor());
    return results;
  }
};

bool is_tracked(const at::Tensor& tensor) { return at::GradMode::is_enabled() && tensor.requires_grad(); }

// Whether every layer is one device call. PyTorch computes all other cases, and throws the errors for wrong arguments.
bool is_offered(c10::DispatchKeySet keys, const at::Tensor& input, at::TensorList hx, at::TensorList params, const Layer& layer,
                int64_t layers) {
  if (!is_seen_by_device_alone(keys) || at::autocast::is_autocast_enabled(at::kPrivateUse1)) return false;
  const at::ScalarType dtype = input.scalar_type();
  if (dtype != at::kFloat && dtype != at::kHalf && dtype != at::kBFloat16) return false;
  if (input.dim() != 3 || input.numel() == 0 || hx.size() != 2 || layers < 1) return false;
  if (params.size() != static_cast<size_t>(layers * layer.params())) return false;
  const auto is_plain = [&](const at::Tensor& tensor) {
    return tensor.device() == input.device() && tensor.scalar_type() == dtype && !tensor._fw_grad(/*level=*/0).defined();
  };
  return is_plain(input) && std::all_of(hx.begin(), hx.end(), is_plain) && std::all_of(params.begin(), params.end(), is_plain);
}

bool shapes_fit(const at::Tensor& input, at::TensorList hx, at::TensorList params, const Layer& layer, int64_t layers,
                int64_t batch) {
  if (hx[0].dim() != 3 || params[1].dim() != 2) return false;
  const int64_t hidden = params[1].size(1);
  const std::array<int64_t, 3> state{layers * layer.directions(), batch, hidden};
  if (hidden == 0 || hx[0].sizes() != at::IntArrayRef(state) || hx[1].sizes() != at::IntArrayRef(state)) return false;
  for (int64_t index = 0; index < layers * layer.directions(); ++index) {
    const int64_t first = index * (layer.has_biases ? kBiased : kDirection);
    const int64_t width = index < layer.directions() ? input.size(2) : hidden * layer.directions();
    if (params[first].sizes() != at::IntArrayRef({4 * hidden, width})) return false;
    if (params[first + 1].sizes() != at::IntArrayRef({4 * hidden, hidden})) return false;
    if (layer.has_biases && (params[first + 2].numel() != 4 * hidden || params[first + 3].numel() != 4 * hidden)) return false;
  }
  return true;
}

ThreeTensors lstm(c10::DispatchKeySet keys, const at::Tensor& input, at::TensorList hx, at::TensorList params, bool has_biases,
                  int64_t num_layers, double dropout, bool train, bool bidirectional, bool batch_first) {
  const Layer layer{has_biases, bidirectional};
  if (!is_offered(keys, input, hx, params, layer, num_layers) ||
      !shapes_fit(input, hx, params, layer, num_layers, input.size(batch_first ? 0 : 1))) {
    return at::native::lstm(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first);
  }
  const bool tracked =
      is_tracked(input) || std::any_of(hx.begin(), hx.end(), is_tracked) || std::any_of(params.begin(), params.end(), is_tracked);
  at::Tensor x = batch_first ? input.transpose(0, 1) : input;
  variable_list hy, cy;
  for (int64_t index = 0; index < num_layers; ++index) {
    const auto states = [&](const at::Tensor& all) {
      return num_layers == 1 ? all : all.narrow(0, index * layer.directions(), layer.directions());
    };
    const at::TensorList layer_params = params.slice(index * layer.params(), layer.params());
    if (tracked) {
      variable_list results = LstmLayer::apply(x, states(hx[0]), states(hx[1]), layer_params, has_biases, bidirectional);
      x = std::move(results[0]);
      hy.push_back(std::move(results[1]));
      cy.push_back(std::move(results[2]));
    } else {
      auto [output, last_h, last_c] = run(layer, x, states(hx[0]), states(hx[1]), layer_params, nullptr);
      x = std::move(output);
      hy.push_back(std::move(last_h));
      cy.push_back(std::move(last_c));
    }
    if (train && dropout != 0 && index + 1 < num_layers) x = at::dropout(x, dropout, true);
  }
  const auto joined = [](variable_list& parts) { return parts.size() == 1 ? parts[0] : at::cat(parts); };
  return {batch_first ? x.transpose(0, 1) : x, joined(hy), joined(cy)};
}

const DispatchEntry* lstm_kernel;  // of lstm.input for PrivateUse1

// Calls lstm, or the kernel that a user has registered for PrivateUse1.
ThreeTensors lstm_autograd(c10::DispatchKeySet keys, const at::Tensor& input, at::TensorList hx, at::TensorList params,
                           bool has_biases, int64_t num_layers, double dropout, bool train, bool bidirectional,
                           bool batch_first) {
  if (lstm_kernel->is_unchanged()) {
    return lstm(keys, input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first);
  }
  const at::AutoDispatchBelowADInplaceOrView below;
  const c10::DispatchKeySet rest = is_seen_by_device_alone(keys) ? kDeviceKeys : keys & c10::after_autograd_keyset;
  return at::_ops::lstm_input::redispatch(rest, input, hx, params, has_biases, num_layers, dropout, train, bidirectional,
                                          batch_first);
}

}  // namespace

// Registered for both keys, with and without gradients.
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("lstm.input", TORCH_FN(lstm));
  lstm_kernel = new DispatchEntry("aten::lstm", "input", c10::DispatchKey::PrivateUse1);
}
TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) { m.impl("lstm.input", TORCH_FN(lstm_autograd)); }

}  // namespace torch_npu
