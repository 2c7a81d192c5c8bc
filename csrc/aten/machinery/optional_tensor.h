// Tensors that an operator can be called without: None and an undefined tensor mean the same.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace torch_npu {

using OptionalTensor = std::optional<at::Tensor>;

inline bool is_given(const OptionalTensor& tensor) { return tensor.has_value() && tensor->defined(); }

// As ATen's shape functions take it.
inline at::OptionalTensorRef borrowed(const OptionalTensor& tensor) {
  return is_given(tensor) ? at::OptionalTensorRef(*tensor) : at::OptionalTensorRef();
}

}  // namespace torch_npu
