// Copies between tensors of any device, dtype and layout.
//
// On one npu a copy is one device call in stream order. Between host and npu dense bytes are moved; the source side converts the
// dtype and the layout first. Such a copy has finished when copy_() returns, unless it is non-blocking and the host memory is
// pinned. Between two npus the current streams of both wait for the copy.
#pragma once

#include <ATen/core/Tensor.h>

namespace torch_npu {

at::Tensor& copy_(at::Tensor& self, const at::Tensor& src, bool non_blocking);

}  // namespace torch_npu
