// Memory for the segments of one DeviceCache: from the device or from the functions of a pool, within the memory fraction.
//
//   void* address = source.get(lock, cache, bytes);
//   if (address == nullptr) ... source.take_refusal() ...
//
// Owned by a DeviceCache and protected by its lock. Functions of a pool are called without the lock, because they may need locks
// of the user, such as Python's. With release_lock_on_npumalloc the device is called without it too.
#pragma once

#include <string>

#include "acl/acl_rt.h"
#include "core/memory/block_pools.h"
#include "core/memory/cache_state.h"

namespace torch_npu {

class SegmentSource {
 public:
  explicit SegmentSource(CacheState& state) : state_(state), fraction_(initial_memory_fraction()) {}
  SegmentSource(const SegmentSource&) = delete;
  SegmentSource& operator=(const SegmentSource&) = delete;

  // Null if the limit or the source has no more memory; throws on any other failure. The calling thread has bound the device.
  void* get(CacheLock& lock, const StreamCache& cache, size_t bytes);

  // Whether the limit allows `bytes` more. Forgets the last refusal.
  bool allows(size_t bytes);
  // Keeps the message of the device's last error as the refusal.
  void note_refusal();
  // The reason why the last attempt to get memory failed; empty if the limit was the reason.
  std::string take_refusal();

  // The part of the device's memory that may be reserved.
  void set_fraction(double fraction) { fraction_ = fraction; }
  double fraction() const { return fraction_; }
  // The same in bytes; SIZE_MAX for a fraction of 1.
  size_t limit() const;

 private:
  aclError ask_device(CacheLock& lock, size_t bytes, void** address);
  template <typename Ask>
  void without_lock(CacheLock& lock, size_t bytes, Ask&& ask);

  CacheState& state_;
  double fraction_;
  size_t asked_for_ = 0;  // bytes of requests that run without the lock
  std::string refusal_;
};

}  // namespace torch_npu
