// Device memory without a cache, for finding errors: every tensor is an allocation of the device, of exactly its size.
//
//   UncachedMemory& memory = UncachedMemory::of(device);
//   UncachedMemory::Piece* piece = memory.allocate(bytes, stream_id);
//   memory.free(piece);                                     // back at the device at once, if its streams are done
//   ...
//   after_synchronize();                                    // else here at the latest
//
// In use with PYTORCH_NO_NPU_MEMORY_CACHING=1, after enable_caching(false), and by itself where the device checks memory
// (SOFTNPU_MEMORY_CHECK), as a cache would hide tensors from those checks. What a free finds out, such as a damaged red zone,
// cannot be thrown by a destructor: it is kept, and thrown by the next allocation or synchronising call, or printed at exit.
//
// Thread-safe, by one lock per device.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include <atomic>
#include <mutex>
#include <vector>

#include "core/late_errors.h"
#include "core/stream/event.h"

namespace torch_npu {

class UncachedMemory {
 public:
  struct Piece {
    void* address;
    size_t size;
    NPUStream stream;
    std::vector<NPUStream> users{};  // other streams, by recordStream
    uint32_t pending_events = 0;
  };

  // Decided at the first call, which loads the device library.
  static bool is_in_use();
  static UncachedMemory& of(c10::DeviceIndex device);
  // Null if it was never used.
  static UncachedMemory* find(c10::DeviceIndex device);

  // As DeviceCache; see there.
  Piece* allocate(size_t bytes, c10::StreamId id);
  void free(Piece* piece) noexcept;
  void record_stream(Piece* piece, NPUStream stream);
  // Waits for the streams that use freed memory and gives it back.
  void release_cached();
  c10::CachingDeviceAllocator::DeviceStats stats() const;
  void reset_accumulated_stats();
  void reset_peak_stats();
  std::pair<size_t, size_t> usage() const;
  void set_fraction(double fraction);
  double fraction() const;

  // Gives back what can be given back now.
  void collect() noexcept;

 private:
  struct Pending {
    PooledEvent* event;
    Piece* piece;
  };

  explicit UncachedMemory(c10::DeviceIndex device) : device_(device) {}

  void* ask_device(size_t bytes);
  void mark_freed();
  void wait_for(NPUStream stream, Piece* piece);
  void collect_reached(bool wait);
  void give_back(Piece* piece) noexcept;
  [[noreturn]] void out_of_memory(std::unique_lock<std::mutex>& lock, size_t bytes);

  const c10::DeviceIndex device_;
  mutable std::mutex mutex_;
  std::vector<Piece*> freed_;  // whose streams are not marked yet
  std::vector<Pending> pending_;
  double fraction_ = 1;
  size_t allowed_ = SIZE_MAX;
  c10::CachingDeviceAllocator::DeviceStats stats_;
};

namespace detail {

C10_EXPORT extern constinit std::atomic<bool> memory_is_uncached;
C10_EXPORT void settle_uncached_memory();

}  // namespace detail

// After every call that waited for the device. Throws what frees found out since the last one.
inline void after_synchronize() {
  if (detail::memory_is_uncached.load(std::memory_order_relaxed)) [[unlikely]]
    detail::settle_uncached_memory();
  raise_late_errors();
}

}  // namespace torch_npu
