// Stores results of kernels that have no out= form.
//
//   store(gradient, std::get<0>(results));
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <optional>
#include <utility>

namespace softnpu::ops::kernels {

// Copies a result into an output. Does nothing if the output is absent or the result undefined.
inline void store(const std::optional<at::Tensor>& output, const at::Tensor& result) {
  if (output && output->defined() && result.defined()) output->copy_(result);
}

inline bool wanted(const std::optional<at::Tensor>& output) { return output && output->defined(); }

// Runs `work` on a contiguous tensor: `output`, or one that is then copied into it. `output` must have these sizes.
template <class Work>
void write_contiguous(at::Tensor& output, at::IntArrayRef sizes, Work&& work) {
  TORCH_CHECK(output.sizes() == sizes, "a result of shape ", sizes, " does not fit into one of shape ", output.sizes());
  at::Tensor target = output.contiguous();
  std::forward<Work>(work)(target);
  if (!target.is_same(output)) output.copy_(target);
}

template <size_t kCount>
std::array<bool, kCount> flags(at::IntArrayRef values) {
  TORCH_CHECK(values.size() == kCount, kCount, " flags are expected, ", values.size(), " were given");
  std::array<bool, kCount> result{};
  for (size_t i = 0; i < kCount; ++i) result[i] = values[i] != 0;
  return result;
}

}  // namespace softnpu::ops::kernels
