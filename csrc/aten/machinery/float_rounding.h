// Tests for calls whose device function takes numbers as float32: the `exact` key of ops.yaml names the call without rounding.
//
//   if (rounds_to_float({p}) && is_offered("aclnnSoftPdist")) ...
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <initializer_list>

#include "acl/symbol.h"

namespace torch_npu {

// Whether float32 cannot represent one of the numbers exactly.
inline bool rounds_to_float(std::initializer_list<double> numbers) {
  return std::any_of(numbers.begin(), numbers.end(), [](double number) { return number != double{static_cast<float>(number)}; });
}

template <class... Tensors>
bool is_any_double(const Tensors&... tensors) {
  return ((tensors.scalar_type() == at::kDouble) || ...);
}

// Whether the device library has the function. It is looked up by name, so do not call this on a hot path.
inline bool is_offered(const char* function) { return acl::find_op_symbol(function) != nullptr; }

}  // namespace torch_npu
