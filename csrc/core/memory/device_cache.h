// The caching allocator of one device (allocator.h): the lock, the order of operations, and the parts that do the work.
//
//   Block* block = cache.allocate(bytes, stream_id);
//   cache.free(block);
//
// | part          | work                                                                           |
// |---------------|--------------------------------------------------------------------------------|
// | CacheState    | settings, statistics, history                                                  |
// | BlockPools    | owns the pools and the lists of free blocks of each stream                     |
// | FreeBlocks    | owns the Block objects, splits and merges them                                 |
// | PendingFrees  | keeps freed blocks that other streams still use                                |
// | SegmentList   | lists the segments and makes snapshots of them                                 |
// | SegmentSource | calls the device or the functions of a pool, within the memory limit           |
// | Segments      | gets segments and gives them back; SegmentExpansion does it in expandable ones |
//
// Thread-safe. One lock protects all parts. It is held while the device is asked for memory, unless release_lock_on_npumalloc is
// set, and released while the device is waited for and while functions of the user run. So a thread whose request the cache can
// serve never waits for those. Objects are never destroyed.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/lock.h"
#include "core/memory/allocator.h"
#include "core/memory/block_pools.h"
#include "core/memory/cache_state.h"
#include "core/memory/free_blocks.h"
#include "core/memory/pending_frees.h"
#include "core/memory/segment_list.h"
#include "core/memory/segment_source.h"
#include "core/memory/segments.h"

namespace torch_npu {

class DeviceCache {
 public:
  explicit DeviceCache(c10::DeviceIndex device)
      : state_{.device = device},
        pools_(*this, device),
        blocks_(state_),
        pending_(state_, blocks_),
        list_(state_),
        source_(state_),
        segments_(state_, pools_, blocks_, list_, source_) {}

  c10::DeviceIndex device() const { return state_.device; }

  // Memory for stream `id` of this device, from the pool that the calling thread uses. The thread has bound the device, and
  // `bytes` > 0. Throws c10::OutOfMemoryError.
  Block* allocate(size_t bytes, c10::StreamId id);
  // Never throws.
  void free(Block* block) noexcept;
  void record_stream(Block* block, NPUStream stream);

  // The memory that the device gave and that contains `block`. In an expandable segment, the pages that contain it.
  MemoryRange segment_of(const Block& block) const;

  // Gives the free segments of a pool back to the device, after waiting for all work (core/stream/all_work.h). {0, 0} stands for
  // the default pool and all pools without a reference. Pools that graphs use keep their segments. If the wait fails, the
  // segments are kept and the failure is thrown. Does nothing while a graph is being captured.
  void release_cached(c10::MempoolId_t pool = {0, 0});

  // A pool exists from the first retain_pool() to the last drop_pool(). drop_pool() returns true if the pool has no reference
  // left but still has segments: release_cached() gives those back. release_pool() does both and throws as release_cached() does.
  void retain_pool(c10::MempoolId_t id, const AllocatorFunctions* source, PoolHolder holder = PoolHolder::kProgram);
  bool drop_pool(c10::MempoolId_t id, PoolHolder holder) noexcept;
  void release_pool(c10::MempoolId_t id);
  size_t pool_use_count(c10::MempoolId_t id) const;

  // A snapshot of all segments, or of those of one pool. Adds an event to the history.
  std::vector<SegmentView> segments(std::optional<c10::MempoolId_t> pool);
  // A copy of the events of the history.
  std::vector<MemoryEvent> events() const;
  void clear_history();

  // Merges free neighbours first, so that each gap between used blocks counts as one inactive block.
  c10::CachingDeviceAllocator::DeviceStats stats();
  void reset_accumulated_stats();
  void reset_peak_stats();
  // Bytes in use, and bytes that the device gave.
  std::pair<size_t, size_t> usage() const;

  // Reads the settings of the process now. Without this call they are read when the cache needs a new segment.
  void read_settings();
  void set_fraction(double fraction);
  double fraction() const;

 private:
  Block* allocate_watched(size_t bytes, c10::StreamId id);
  Block* take(CacheLock& lock, BlockPool& pool, size_t bytes, c10::StreamId id);
  void free_watched(Block* block) noexcept;
  void release(Block* block);

  Block* grow(CacheLock& lock, StreamCache& cache, size_t size, bool is_small);
  Block* shrink_and_retry(CacheLock& lock, StreamCache& cache, size_t size, bool is_small);
  void collect_garbage(CacheLock& lock, size_t bytes);
  bool has_free_segments(c10::MempoolId_t pool);
  void merge_all();
  [[noreturn]] void out_of_memory(CacheLock& lock, size_t bytes, c10::StreamId id);

  std::mutex release_mutex_;  // held by the one thread that gives segments back; locked before mutex_
  mutable Lock mutex_;        // protects all following members
  CacheState state_;
  BlockPools pools_;
  FreeBlocks blocks_;
  PendingFrees pending_;
  SegmentList list_;
  SegmentSource source_;
  Segments segments_;
};

}  // namespace torch_npu
