// Scaled dot product attention: one fused call if the device can compute it, else PyTorch's composition.
#include <ATen/Context.h>
#include <ATen/ExpandUtils.h>
#include <ATen/OpMathType.h>
#include <ATen/SDPBackend.h>
#include <ATen/TensorOperators.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/_transformer_encoder_layer_fwd_native.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/library.h>

#include <cmath>

#include "aten/machinery/allocate.h"
#include "aten/machinery/device_scope.h"
#include "aten/machinery/optional_tensor.h"
#include "plugin/calls.h"

namespace torch_npu {
namespace {

double scale_of(const at::Tensor& query, std::optional<double> scale) {
  return scale.value_or(1.0 / std::sqrt(static_cast<double>(query.size(-1))));
}

// The layout that PyTorch's shape function promises to compiled programs.
at::Tensor empty_in_order_of(const at::Tensor& like) {
  if (like.is_non_overlapping_and_dense()) return empty_as(like);
  return empty_strided(like.sizes(), at::infer_dense_strides(like.sizes(), like.strides()), like.dtype());
}

// Whether it is a tensor of a torch.func transform. The fused operator has neither a batching rule nor a forward-mode derivative.
bool is_transformed(const at::Tensor& tensor) {
  constexpr c10::DispatchKeySet kTransforms({c10::DispatchKey::FuncTorchBatched, c10::DispatchKey::FuncTorchGradWrapper});
  return tensor.key_set().has_any(kTransforms);
}

bool is_fused(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const OptionalTensor& mask,
              double dropout) {
  if (mask.has_value() && is_transformed(*mask)) return false;
  if (dropout != 0 || !at::isFloatingType(query.scalar_type()) || (mask.has_value() && mask->requires_grad())) return false;
  for (const at::Tensor* operand : {&query, &key, &value}) {
    if (operand->is_nested() || is_transformed(*operand)) return false;
    if (operand->dim() != 4 || operand->scalar_type() != query.scalar_type() || operand->numel() == 0) return false;
    if (operand->size(0) != query.size(0) || operand->size(1) != query.size(1) || operand->size(3) != query.size(3)) return false;
    if (operand->stride(-1) != 1 || operand->_fw_grad(/*level=*/0).defined()) return false;
  }
  if (!mask.has_value()) return true;
  const int64_t scores[] = {query.size(0), query.size(1), query.size(2), key.size(2)};
  return (mask->dim() == 2 || mask->dim() == 4) && at::is_expandable_to(mask->sizes(), scores);
}

// True for a wrapper such as a DTensor, whose operators go through Python. False while a program is traced for compilation.
bool is_wrapper(const at::Tensor& tensor) {
  using Modes = c10::impl::TorchDispatchModeTLS;
  return tensor.key_set().has(c10::DispatchKey::Python) && !Modes::get_mode(c10::impl::TorchDispatchModeKey::FAKE).has_value();
}

// Wrappers get the memory-efficient operator: PyTorch has sharding rules and ring attention for it, and none for the overrideable
// operator.
int64_t choose(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const OptionalTensor& mask,
               double dropout, bool /*is_causal*/, std::optional<double> /*scale*/, bool /*enable_gqa*/) {
  const at::Context& context = at::globalContext();
  at::SDPBackend backend = at::SDPBackend::math;
  if (is_wrapper(query)) {
    const bool enabled =
        context.userEnabledOverrideableSDP() || context.userEnabledMemEfficientSDP() || context.userEnabledFlashSDP();
    if (enabled && is_fused(query, key, value, mask, dropout)) backend = at::SDPBackend::efficient_attention;
  } else if (context.userEnabledOverrideableSDP() && is_fused(query, key, value, mask, dropout)) {
    backend = at::SDPBackend::overrideable;
  }
  return static_cast<int64_t>(backend);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, c10::SymInt, c10::SymInt, at::Tensor, at::Tensor, at::Tensor>
attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const OptionalTensor& mask, double dropout,
          bool is_causal, bool /*return_debug_mask*/, std::optional<double> scale) {
  const DeviceScope scope(query);
  const int64_t batch = query.size(0), heads = query.size(1), length = query.size(2);
  at::Tensor out = empty_in_order_of(query);
  at::Tensor logsumexp = empty({batch, length, heads}, at::toOpMathType(query.scalar_type())).transpose(1, 2);
  call::aclnnSoftAttention(query, key, value, mask, dropout, is_causal, scale_of(query, scale), out, logsumexp);
  // A compiled program saves seed and offset for its backward pass even without dropout.
  at::Tensor seed = empty({}, at::kLong), offset = empty({}, at::kLong);
  return {std::move(out), std::move(logsumexp), {}, {}, length, key.size(2), std::move(seed), std::move(offset), {}};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> attention_backward(
    const at::Tensor& grad_out, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const at::Tensor& mask,
    std::array<bool, 4> /*grad_input_mask*/, const at::Tensor& out, const at::Tensor& logsumexp, const at::Tensor& /*cum_seq_q*/,
    const at::Tensor& /*cum_seq_k*/, int64_t /*max_q*/, int64_t /*max_k*/, double dropout, bool is_causal,
    const at::Tensor& /*philox_seed*/, const at::Tensor& /*philox_offset*/, std::optional<double> scale) {
  const DeviceScope scope(query);
  at::Tensor grad_query = empty_in_order_of(query), grad_key = empty_in_order_of(key), grad_value = empty_in_order_of(value);
  call::aclnnSoftAttentionBackward(grad_out, query, key, value, out, logsumexp, mask, dropout, is_causal, scale_of(query, scale),
                                   grad_query, grad_key, grad_value);
  return {std::move(grad_query), std::move(grad_key), std::move(grad_value), at::Tensor()};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> efficient_attention(const at::Tensor& query, const at::Tensor& key,
                                                                               const at::Tensor& value,
                                                                               const OptionalTensor& bias,
                                                                               bool /*compute_log_sumexp*/, double dropout,
                                                                               bool is_causal, std::optional<double> scale) {
  auto results = attention(query, key, value, bias, dropout, is_causal, /*return_debug_mask=*/false, scale);
  return {std::get<0>(results), std::get<1>(results), std::get<6>(results), std::get<7>(results)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> efficient_attention_backward(
    const at::Tensor& grad_out, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const at::Tensor& bias,
    const at::Tensor& out, const at::Tensor& logsumexp, const at::Tensor& seed, const at::Tensor& offset, double dropout,
    std::array<bool, 4> grad_input_mask, bool is_causal, std::optional<double> scale) {
  return attention_backward(grad_out, query, key, value, bias, grad_input_mask, out, logsumexp, {}, {}, query.size(2),
                            key.size(2), dropout, is_causal, seed, offset, scale);
}

// ---- the layers that nn.TransformerEncoder and nn.MultiheadAttention call in inference ----

enum MaskType : int64_t { kSourceMask = 0, kPaddingMask = 1 };

// The mask as a tensor to add to the scores: minus infinity where it is true.
OptionalTensor additive_mask(const OptionalTensor& mask, std::optional<int64_t> type, const at::Tensor& query) {
  if (!mask.has_value() || !mask->defined()) return std::nullopt;
  at::Tensor shaped = *mask;
  if (type == kPaddingMask) shaped = shaped.view({shaped.size(0), 1, 1, shaped.size(1)});
  if (type == kSourceMask) shaped = shaped.view({1, 1, shaped.size(0), shaped.size(1)});
  shaped = shaped.expand({query.size(0), query.size(1), query.size(2), shaped.size(-1)});
  if (shaped.scalar_type() != at::kBool) return shaped;
  return at::zeros_like(shaped, query.options()).masked_fill_(shaped, -std::numeric_limits<double>::infinity());
}

std::tuple<at::Tensor, at::Tensor> multi_head_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                                        int64_t embed_dim, int64_t heads, const at::Tensor& qkv_weight,
                                                        const at::Tensor& qkv_bias, const at::Tensor& proj_weight,
                                                        const at::Tensor& proj_bias, const OptionalTensor& mask,
                                                        bool need_weights, bool average_weights,
                                                        std::optional<int64_t> mask_type) {
  TORCH_CHECK(query.dim() == 3, "expected 3-D `query`, got ", query.dim(), "-D tensor");
  TORCH_CHECK(query.size(2) == embed_dim && embed_dim % heads == 0, "embed_dim ", embed_dim, " does not fit query ",
              query.sizes(), " and ", heads, " heads");
  const auto weights = qkv_weight.chunk(3, 0), biases = qkv_bias.chunk(3, 0);
  const auto project = [&](const at::Tensor& input, size_t part) {
    return at::linear(input, weights[part], biases[part]).view({input.size(0), input.size(1), heads, -1}).transpose(1, 2);
  };
  const at::Tensor q = project(query, 0), k = project(key, 1), v = project(value, 2);
  const OptionalTensor bias = additive_mask(mask, mask_type, q);
  at::Tensor scores, heads_out;
  if (need_weights) {
    scores = at::matmul(q / std::sqrt(static_cast<double>(q.size(-1))), k.transpose(-2, -1));
    if (bias.has_value()) scores = scores + *bias;
    scores = scores.softmax(-1);
    heads_out = at::matmul(scores, v);
    if (average_weights) scores = scores.mean(1);
  } else {
    heads_out = at::scaled_dot_product_attention(q, k, v, bias);
  }
  const at::Tensor joined = heads_out.transpose(1, 2).reshape({query.size(0), query.size(1), embed_dim});
  return {at::linear(joined, proj_weight, proj_bias), std::move(scores)};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_fused_sdp_choice", TORCH_FN(choose));
  m.impl("_native_multi_head_attention", TORCH_FN(multi_head_attention));
  // Not TORCH_FN: under UBSan the address of a function of another library is no constant.
  m.impl("_transformer_encoder_layer_fwd", &at::native::transformer_encoder_layer_forward);
  m.impl("_scaled_dot_product_fused_attention_overrideable", TORCH_FN(attention));
  m.impl("_scaled_dot_product_fused_attention_overrideable_backward", TORCH_FN(attention_backward));
  m.impl("_scaled_dot_product_efficient_attention", TORCH_FN(efficient_attention));
  m.impl("_scaled_dot_product_efficient_attention_backward", TORCH_FN(efficient_attention_backward));
}

int64_t choose_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const OptionalTensor& mask,
                         double dropout, bool is_causal, std::optional<double> scale, bool enable_gqa) {
  return choose(query, key, value, mask, dropout, is_causal, scale, enable_gqa);
}

}  // namespace torch_npu

namespace at::native {

REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &torch_npu::choose_attention)

}  // namespace at::native
