// Operators that C++ programs call by name. Others are called as at::name() or by their aclnn function (torch_npu/extension.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "torch_npu/csrc/core/npu/NPUMacros.h"

namespace at_npu::native {

// A mask for dropout of a tensor of `size`, on the device of `self`: one bit per element, in bytes, padded to 128 elements. It
// runs on the current stream; `parallel` and `sync` have no effect.
TORCH_NPU_API at::Tensor npu_dropout_gen_mask(const at::Tensor& self, at::IntArrayRef size, double p, int64_t seed,
                                              int64_t offset, std::optional<bool> parallel, std::optional<bool> sync);

}  // namespace at_npu::native
