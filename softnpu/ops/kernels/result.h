// Where results of kernels without an out= form go.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <optional>

namespace softnpu::ops::kernels {

// Copies a result into an output that may be absent; a result that was not asked for is undefined.
inline void store(const std::optional<at::Tensor>& output, const at::Tensor& result) {
  if (output && output->defined() && result.defined()) output->copy_(result);
}

inline bool wanted(const std::optional<at::Tensor>& output) { return output && output->defined(); }

template <size_t kCount>
std::array<bool, kCount> flags(at::IntArrayRef values) {
  TORCH_CHECK(values.size() == kCount, kCount, " flags are expected, ", values.size(), " were given");
  std::array<bool, kCount> result{};
  for (size_t i = 0; i < kCount; ++i) result[i] = values[i] != 0;
  return result;
}

}  // namespace softnpu::ops::kernels
