// Numbers of a call that the device function takes in float32.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <initializer_list>

#include "acl/symbol.h"

namespace torch_npu {

// Whether one of the numbers has no float32 of the same value.
inline bool rounds_to_float(std::initializer_list<double> numbers) {
  return std::any_of(numbers.begin(), numbers.end(), [](double number) { return number != double{static_cast<float>(number)}; });
}

template <class... Tensors>
bool is_any_double(const Tensors&... tensors) {
  return ((tensors.scalar_type() == at::kDouble) || ...);
}

// Whether the device library has the function. A look-up by name: not for a hot path.
inline bool is_offered(const char* function) { return acl::find_op_symbol(function) != nullptr; }

}  // namespace torch_npu
