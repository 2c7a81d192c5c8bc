// Device memory: a caching allocator in stream order.
//
//   at::DataPtr memory = allocate_memory(1024);      // for the current stream of the current device
//   recordStream(memory, other_stream);              // another stream uses it too
//
// A segment is memory that the device gave in one call. It is split into blocks. A freed block goes to the cache of its stream at
// once, without an event, because later work of the same stream runs after the work that used it. If recordStream() named other
// streams, the block is reused after their work. Sizes are rounded to 512 bytes. Requests up to 1 MiB come from segments of 2
// MiB, requests up to 10 MiB from segments of 20 MiB, and larger ones from segments of their own, rounded to 2 MiB. Free
// neighbours are merged. A free segment goes back to the device in emptyCache() or before an allocation fails.
//
// Threads that use a pool (memory_pool.h) get memory from the segments of that pool. use_allocator() replaces the caching
// allocator by functions of the user (pluggable_allocator.h). allocator_settings.h has the settings.
//
// With PYTORCH_NO_NPU_MEMORY_CACHING=1, and while the device checks memory, nothing is cached: see uncached_memory.h.
//
// Thread-safe. Freeing is safe at exit and in a forked child. An allocation that fails throws c10::OutOfMemoryError; the
// allocator stays usable.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include <optional>
#include <string>
#include <vector>

#include "core/memory/memory_snapshot.h"
#include "core/stream/stream.h"

namespace torch_npu {

C10_EXPORT c10::DeviceAllocator* getNPUAllocator();

// `bytes` on the current device for the current stream. As getNPUAllocator()->allocate(bytes), without the virtual call.
C10_EXPORT at::DataPtr allocate_memory(size_t bytes);

// Scratch memory for one call on the current stream: freed with the result, reused in stream order.
inline at::DataPtr allocate_workspace(size_t bytes) { return allocate_memory(bytes); }

// The memory of `pointer` is reused only after the work that `stream` has when the memory is freed. Memory of other allocators is
// ignored.
C10_EXPORT void recordStream(const at::DataPtr& pointer, NPUStream stream);

// Lets several storages own the memory until one of them writes (copy on write). PyTorch requires that the context of such memory
// is its address. Only this memory is registered by address, so that other allocations need no search.
C10_EXPORT void make_shareable(at::DataPtr& pointer);

// The device's allocation that contains the memory of `pointer`, and the stream of that memory. Memory of other allocators counts
// as an allocation of `bytes` for the current stream.
struct MemoryRange {
  void* begin;
  size_t bytes;
  NPUStream stream;
};
MemoryRange allocation_of(const at::DataPtr& pointer, size_t bytes);

// For libraries that identify memory by its address. raw_allocate() returns null for 0 bytes, and raw_free() accepts null.
// raw_free() throws if `address` does not come from raw_allocate().
C10_EXPORT void* raw_allocate(size_t bytes, NPUStream stream);
C10_EXPORT void raw_free(void* address);

// Limits the reserved memory of `device` to a fraction of its capacity, from 0 to 1. Allocations beyond the limit throw
// c10::OutOfMemoryError.
C10_EXPORT void set_memory_fraction(double fraction, c10::DeviceIndex device);
C10_EXPORT double memory_fraction(c10::DeviceIndex device);

// As set_allocator_settings(), and existing caches use the new settings at once.
C10_EXPORT void change_allocator_settings(const std::string& text);

// With false, later allocations are not cached (uncached_memory.h); the statistics remain those of the cache. Returns the
// previous value.
C10_EXPORT bool enable_caching(bool enabled);

// Whether device memory was ever in use.
bool has_allocated();

// The segments of all devices, or of one pool; empty if memory is not cached.
C10_EXPORT std::vector<SegmentView> memory_segments(std::optional<c10::MempoolId_t> pool);
// The recorded events of memory_history.h.
C10_EXPORT std::vector<MemoryEvent> memory_events(c10::DeviceIndex device);
C10_EXPORT void clear_memory_history();

// Made at the first call, without a call of the device.
class DeviceCache;
DeviceCache& device_cache(c10::DeviceIndex device);

}  // namespace torch_npu
