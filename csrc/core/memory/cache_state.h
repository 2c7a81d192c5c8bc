// The settings, statistics and history that the parts of one DeviceCache share.
//
// DeviceCache owns the only object. Its parts (BlockPools, FreeBlocks, PendingFrees, SegmentList, SegmentSource,
// SegmentExpansion, Segments) hold references. The lock of the DeviceCache protects everything but `device`.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include <mutex>

#include "base/lock.h"
#include "core/memory/allocator_settings.h"
#include "core/memory/memory_history.h"

namespace torch_npu {

struct CacheState {
  const c10::DeviceIndex device;
  CacheSettings settings = CacheSettings::read();  // read again whenever the cache needs a new segment
  c10::CachingDeviceAllocator::DeviceStats stats{};
  MemoryHistory history{};
};

// The held lock of a DeviceCache. A function that takes it may release it for a while. The lock is held again when the function
// returns; after an exception it may be released.
using CacheLock = std::unique_lock<Lock>;

// Always inlined: allocate() and free() update several statistics per call.
[[gnu::always_inline]] inline void increase(c10::CachingAllocator::StatArray& stat, bool is_small, size_t amount) {
  stat[0].increase(amount);
  stat[is_small ? 1 : 2].increase(amount);
}

[[gnu::always_inline]] inline void decrease(c10::CachingAllocator::StatArray& stat, bool is_small, size_t amount) {
  stat[0].decrease(amount);
  stat[is_small ? 1 : 2].decrease(amount);
}

}  // namespace torch_npu
