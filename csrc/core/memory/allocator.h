// Device memory: a caching allocator in stream order.
//
// Memory is cut from segments that the device gave and goes back to a cache of its stream when freed, at once and without an
// event: later work of the same stream runs after the work that used it. Memory that another stream uses too is named by
// recordStream(); its free then waits for that stream. Sizes are rounded to 512 bytes. Requests up to 1 MiB come from segments of
// 2 MiB, up to 10 MiB from segments of 20 MiB, larger ones from their own, rounded to 2 MiB. Free neighbours merge. A segment
// goes back to the device in emptyCache() or before an allocation would fail.
//
// Threads that use a pool (memory_pool.h) take memory from that pool's segments. use_allocator() puts functions of the user in
// place of all this (pluggable_allocator.h). allocator_settings.h says what can be set.
//
// With PYTORCH_NO_NPU_MEMORY_CACHING=1, and while the device checks memory, there is no cache: see uncached_memory.h.
//
// Thread-safe. Freeing is safe at exit and in a child of fork(). Running out is c10::OutOfMemoryError; the allocator stays
// usable.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include <optional>
#include <string>
#include <vector>

#include "core/memory/memory_snapshot.h"
#include "core/stream/stream.h"

namespace torch_npu {

C10_EXPORT c10::DeviceAllocator* getNPUAllocator();

// `bytes` on the current device for the current stream. Same as getNPUAllocator()->allocate(bytes), without the virtual call.
C10_EXPORT at::DataPtr allocate_memory(size_t bytes);

// Scratch memory for one call on the current stream: freed when the result goes out of scope, reused in stream order.
inline at::DataPtr allocate_workspace(size_t bytes) { return allocate_memory(bytes); }

// Memory of `pointer` is reused only after what `stream` holds when it is freed. Memory of others is ignored.
C10_EXPORT void recordStream(const at::DataPtr& pointer, NPUStream stream);

// Lets several storages own the memory until one of them writes: PyTorch wants the context of such memory to be its address,
// which would cost every other allocation a search.
C10_EXPORT void make_shareable(at::DataPtr& pointer);

// The allocation of the device in which the memory of `pointer` lies, and the stream that it was allocated for. Memory of others
// is taken to be an allocation of `bytes` for the current stream.
struct MemoryRange {
  void* begin;
  size_t bytes;
  NPUStream stream;
};
MemoryRange allocation_of(const at::DataPtr& pointer, size_t bytes);

// For other libraries, which know memory by its address alone. Null for 0 bytes, and null may be freed. raw_free() throws if
// raw_allocate() did not give `address`.
C10_EXPORT void* raw_allocate(size_t bytes, NPUStream stream);
C10_EXPORT void raw_free(void* address);

// Limits the reserved memory of `device` to a share of its capacity, from 0 to 1. Beyond it, allocation fails as out of memory.
C10_EXPORT void set_memory_fraction(double fraction, c10::DeviceIndex device);
C10_EXPORT double memory_fraction(c10::DeviceIndex device);

// set_allocator_settings(), for memory that is in use too.
C10_EXPORT void change_allocator_settings(const std::string& text);

// Off: every allocation from now on is one of the device, as in uncached_memory.h; statistics are those of the cache.
// Gives what held before.
C10_EXPORT bool enable_caching(bool enabled);

// Whether device memory was ever in use.
bool has_allocated();

// Of all devices, or of one pool; empty where memory is not cached.
C10_EXPORT std::vector<SegmentView> memory_segments(std::optional<c10::MempoolId_t> pool);
// What memory_history.h recorded.
C10_EXPORT std::vector<MemoryEvent> memory_events(c10::DeviceIndex device);
C10_EXPORT void clear_memory_history();

// Made at the first call, which needs no device.
class DeviceCache;
DeviceCache& device_cache(c10::DeviceIndex device);

}  // namespace torch_npu
