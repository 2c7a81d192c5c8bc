// Pinned host memory: at::getHostAllocator(at::kPrivateUse1), a cache over aclrtMallocHost.
//
// A copy that a stream makes asynchronously to or from such memory is named by
//   at::getHostAllocator(at::kPrivateUse1)->record_event(pointer, context, stream)
// so that the memory is reused after it.
#pragma once

#include <ATen/core/CachingHostAllocator.h>

namespace torch_npu {

C10_EXPORT at::HostAllocator* getNPUHostAllocator();

// Whether the device can use `pointer` of the host directly. False before the first use of a device.
C10_EXPORT bool is_pinned(const void* pointer);

}  // namespace torch_npu
