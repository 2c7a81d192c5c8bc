// Pinned host memory: at::getHostAllocator(at::kPrivateUse1), a cache over aclrtMallocHost.
//
//   at::getHostAllocator(at::kPrivateUse1)->record_event(pointer, context, stream);
//
// Called after an asynchronous copy of `stream` to or from such memory. The memory is then reused after the copy. Thread-safe.
#pragma once

#include <ATen/core/CachingHostAllocator.h>

namespace torch_npu {

C10_EXPORT at::HostAllocator* getNPUHostAllocator();

// Whether `pointer` is host memory that the device can use directly. False before the first use of a device.
C10_EXPORT bool is_pinned(const void* pointer);

}  // namespace torch_npu
