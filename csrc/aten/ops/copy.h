// Copies between tensors of any device, dtype and layout.
//
// On one npu a copy is one device call in stream order. Between host and npu the bytes are moved densely: a conversion or a
// change of layout happens on the device for what comes from it, on the host for what comes from there. Such a copy is over when
// copy_() returns, unless it is non-blocking and the host side is pinned. Between two npus both current streams wait for it.
#pragma once

#include <ATen/core/Tensor.h>

namespace torch_npu {

at::Tensor& copy_(at::Tensor& self, const at::Tensor& src, bool non_blocking);

}  // namespace torch_npu
