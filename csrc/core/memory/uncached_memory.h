// Device memory without a cache, for finding memory errors: each tensor is one allocation of the device, of exactly its size.
//
//   UncachedMemory& memory = UncachedMemory::of(device);
//   UncachedMemory::Allocation* allocation = memory.allocate(bytes, stream_id);
//   memory.free(allocation);
//
// Freed memory goes back to the device when all streams that may use it are done: at once, or in a later call that allocates,
// frees or waits (core/stream/after_synchronize.h).
//
// It is used with PYTORCH_NO_NPU_MEMORY_CACHING=1, after enable_caching(false), and when the device checks memory
// (SOFTNPU_MEMORY_CHECK), because a cache would hide tensors from these checks. An error that a free reports, such as a damaged
// red zone, is thrown by the next allocation or synchronising call or printed at exit, because destructors must not throw.
//
// Thread-safe: one lock per device protects all members. Objects are never destroyed.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include <atomic>
#include <mutex>
#include <vector>

#include "core/stream/after_synchronize.h"
#include "core/stream/event.h"

namespace torch_npu {

class UncachedMemory {
 public:
  struct Allocation {
    void* address;
    size_t size;
    NPUStream stream;
    std::vector<NPUStream> users{};  // other streams that use it, by recordStream()
    uint32_t pending_events = 0;     // it goes back to the device when this is 0
  };

  // Whether it replaces the cache for the whole process. Decided at the first call, which loads the device library.
  static bool is_in_use();
  static UncachedMemory& of(c10::DeviceIndex device);
  // Null if of() was never called for the device.
  static UncachedMemory* find(c10::DeviceIndex device);

  // These functions do the same as those of DeviceCache.
  Allocation* allocate(size_t bytes, c10::StreamId id);
  void free(Allocation* allocation) noexcept;
  void record_stream(Allocation* allocation, NPUStream stream);
  // Waits for the streams that use freed memory and gives it back to the device.
  void release_cached();
  c10::CachingDeviceAllocator::DeviceStats stats() const;
  void reset_accumulated_stats();
  void reset_peak_stats();
  std::pair<size_t, size_t> usage() const;
  void set_fraction(double fraction);
  double fraction() const;

  // Gives freed memory back whose streams are done.
  void collect() noexcept;

 private:
  struct Pending {
    PooledEvent* event;
    Allocation* allocation;
  };

  explicit UncachedMemory(c10::DeviceIndex device) : device_(device) {}

  void* ask_device(size_t bytes);
  void record_freed();
  void record(NPUStream stream, Allocation* allocation);
  void collect_reached(bool wait);
  void give_back(Allocation* allocation) noexcept;
  [[noreturn]] void out_of_memory(std::unique_lock<std::mutex>& lock, size_t bytes);

  const c10::DeviceIndex device_;
  mutable std::mutex mutex_;
  std::vector<Allocation*> freed_;  // no events are recorded for them yet
  std::vector<Pending> pending_;
  double fraction_ = 1;
  size_t allowed_ = SIZE_MAX;
  c10::CachingDeviceAllocator::DeviceStats stats_;
};

}  // namespace torch_npu
