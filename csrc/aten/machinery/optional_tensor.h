// Optional tensor arguments. None and an undefined tensor both mean that the argument is not given.
//
//   if (is_given(weight)) out = out * *weight;
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace torch_npu {

using OptionalTensor = std::optional<at::Tensor>;

inline bool is_given(const OptionalTensor& tensor) { return tensor.has_value() && tensor->defined(); }

// The type that ATen's shape functions take.
inline at::OptionalTensorRef borrowed(const OptionalTensor& tensor) {
  return is_given(tensor) ? at::OptionalTensorRef(*tensor) : at::OptionalTensorRef();
}

}  // namespace torch_npu
