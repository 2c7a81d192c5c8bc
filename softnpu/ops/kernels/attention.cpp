#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>

#include <limits>

#include "kernels.h"

namespace softnpu::ops::kernels {
namespace {

// A scale of 0 means one over the square root of the head size.
std::optional<double> scale_of(double scale) { return scale == 0 ? std::nullopt : std::optional(scale); }

}  // namespace

void attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const std::optional<at::Tensor>& attnMask,
               double dropoutP, bool isCausal, double scale, at::Tensor& out, at::Tensor& logsumexp) {
  if (query.size(2) == 0) return;
  if (key.size(2) == 0) {  // ATen's kernel divides by the number of keys
    out.zero_();
    logsumexp.fill_(-std::numeric_limits<double>::infinity());
    return;
  }
  const auto [result, sums] =
      at::_scaled_dot_product_flash_attention_for_cpu(query, key, value, dropoutP, isCausal, attnMask, scale_of(scale));
  out.copy_(result);
  logsumexp.copy_(sums);
}

void attention_backward(const at::Tensor& gradOut, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                        const at::Tensor& out, const at::Tensor& logsumexp, const std::optional<at::Tensor>& attnMask,
                        double dropoutP, bool isCausal, double scale, at::Tensor& gradQuery, at::Tensor& gradKey,
                        at::Tensor& gradValue) {
  const auto [for_query, for_key, for_value] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
      gradOut, query, key, value, out, logsumexp, dropoutP, isCausal, attnMask, scale_of(scale));
  gradQuery.copy_(for_query);
  gradKey.copy_(for_key);
  gradValue.copy_(for_value);
}

}  // namespace softnpu::ops::kernels
