// Device memory from functions of the user, in place of the caching allocator or for the segments of one pool.
//
//   static const AllocatorFunctions mine{my_alloc, my_free};
//   use_allocator(&mine);                          // before the first allocation
//   at::DataPtr memory = allocate_memory(1024);    // calls my_alloc(1024, device, stream)
//
// After use_allocator() nothing is cached or counted, and recordStream() has no effect. `free` is called when the last owner
// frees the memory, and must take care of streams that still use it. If `allocate` returns a null pointer, c10::OutOfMemoryError
// is thrown.
//
// Thread-safe.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Stream.h>
#include <c10/macros/Export.h>

#include "acl/acl_rt.h"

namespace torch_npu {

// Called from any thread, with `device` bound.
struct AllocatorFunctions {
  void* (*allocate)(size_t size, int device, aclrtStream stream) = nullptr;
  void (*free)(void* address, size_t size, int device, aclrtStream stream) = nullptr;
};

// For all later allocations. Throws if device memory was allocated before, or if use_allocator() was called before. `functions`
// must stay valid until the process ends.
C10_EXPORT void use_allocator(const AllocatorFunctions* functions);

// Null: the caching allocator is in use.
C10_EXPORT const AllocatorFunctions* plugged_allocator();

at::DataPtr allocate_plugged(const AllocatorFunctions& functions, size_t bytes, c10::DeviceIndex device, c10::StreamId stream);

}  // namespace torch_npu
