// The storage formats of the device. `format` is a number of aclFormat, such as ACL_FORMAT_ND.
//
//   at::Tensor weight = at_npu::native::npu_format_cast(x, ACL_FORMAT_FRACTAL_NZ);
//
// Each tensor is stored with its strides, in the base format of its rank. A cast to another format is a copy in the same layout.
// torch_npu.npu_format_cast() in Python records the name of the format; these functions do not. An unknown format is an error.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "torch_npu/csrc/core/npu/NPUMacros.h"

namespace at_npu::native {

// ACL_FORMAT_NCHW for four dimensions, ACL_FORMAT_NCDHW for five, else ACL_FORMAT_ND.
TORCH_NPU_API int64_t get_npu_format(const at::Tensor& self);
// The sizes of the tensor, because there is no padding.
TORCH_NPU_API std::vector<int64_t> get_npu_storage_sizes(const at::Tensor& self);
TORCH_NPU_API at::Tensor npu_format_cast(const at::Tensor& self, int64_t acl_format);

// An uninitialised tensor on the device of `options`, or on the current npu if they name none.
TORCH_NPU_API at::Tensor empty_with_format(c10::IntArrayRef sizes, const c10::TensorOptions& options, int64_t format,
                                           bool keep_format = false);
// An uninitialised tensor in ordinary device memory: there is no separate swapped memory.
TORCH_NPU_API at::Tensor empty_with_swapped_memory(c10::IntArrayRef size, std::optional<at::ScalarType> dtype_opt,
                                                   std::optional<c10::Device> device_opt);

}  // namespace at_npu::native
