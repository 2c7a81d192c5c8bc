// An ATen tensor as the engine takes it.
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/objects/objects.h"

namespace softnpu::ops::engine {

// Valid while `tensor` keeps its shape. The dtype is ACL_DT_UNDEFINED if the device has no such type.
inline TensorView view_of(const at::Tensor& tensor) {
  static const auto types = [] {
    std::array<aclDataType, size_t(at::ScalarType::NumOptions)> found;
    found.fill(ACL_DT_UNDEFINED);
    for (int type = 0; type < kDataTypes; ++type) {
      if (kScalarTypes[type] != at::ScalarType::Undefined) found[size_t(kScalarTypes[type])] = aclDataType(type);
    }
    return found;
  }();
  return {.data = tensor.data_ptr(),
          .dtype = types[size_t(tensor.scalar_type())],
          .ndim = int(tensor.dim()),
          .contiguous = tensor.is_contiguous(),
          .sizes = tensor.sizes().data(),
          .strides = tensor.strides().data(),
          .numel = tensor.numel()};
}

}  // namespace softnpu::ops::engine
