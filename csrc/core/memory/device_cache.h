// The cached memory of one device: what allocator.h promises, device by device.
//
// Thread-safe, by one lock, which is held while the device is asked for memory, but not while the device is waited for or
// functions of the user are called: who finds what it needs in the cache never waits for those.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "base/lock.h"
#include "core/memory/allocator.h"
#include "core/memory/allocator_settings.h"
#include "core/memory/free_blocks.h"
#include "core/memory/memory_history.h"
#include "core/memory/memory_snapshot.h"
#include "core/stream/event.h"

namespace torch_npu {

enum class PoolUser : bool { kProgram, kGraph };

class DeviceCache {
 public:
  explicit DeviceCache(c10::DeviceIndex device)
      : device_(device), settings_(CacheSettings::read()), fraction_(initial_memory_fraction()) {}

  c10::DeviceIndex device() const { return device_; }

  // Memory for stream `id` of this device, which the calling thread has bound; `bytes` > 0. From the pool that the thread uses.
  // Throws c10::OutOfMemoryError.
  Block* allocate(size_t bytes, c10::StreamId id);
  // Never throws.
  void free(Block* block) noexcept;
  void record_stream(Block* block, NPUStream stream);

  // What the device gave, of which `block` is a part; of an expandable segment, the pages that it lies on.
  MemoryRange segment_of(const Block& block) const;

  // Gives segments of a pool that are free back to the device, after waiting for all work (core/stream/all_work.h); not while
  // graphs use the pool. {0, 0}: of the default pool and of those that nobody can name any more. Where the wait fails the
  // segments are kept, and the failure is thrown. Without effect while a graph is captured.
  void release_cached(c10::MempoolId_t pool = {0, 0});

  // Pools live from the first retain to the last drop. drop_pool() returns whether the pool then has segments left, which nobody
  // can name any more: they go back with release_cached(). release_pool() does both, and throws as release_cached().
  void retain_pool(c10::MempoolId_t id, const AllocatorFunctions* source, PoolUser user = PoolUser::kProgram);
  bool drop_pool(c10::MempoolId_t id, PoolUser user) noexcept;
  void release_pool(c10::MempoolId_t id);
  size_t pool_use_count(c10::MempoolId_t id) const;

  // All of them, or of one pool.
  std::vector<SegmentView> segments(std::optional<c10::MempoolId_t> pool);
  // Copies of what MemoryHistory keeps.
  std::vector<MemoryEvent> events() const;
  void clear_history();

  // Free neighbours are joined first, so that what lies between blocks in use is counted once.
  c10::CachingDeviceAllocator::DeviceStats stats();
  void reset_accumulated_stats();
  void reset_peak_stats();
  // Bytes that users hold, and bytes that the device gave.
  std::pair<size_t, size_t> usage() const;

  // The settings of the process are read anew whenever the device is asked for memory, so that a hit need not; or now.
  void read_settings();
  void set_fraction(double fraction);
  double fraction() const;

 private:
  using HeldLock = std::unique_lock<Lock>;
  struct Pending {
    PooledEvent* event;
    Block* block;
  };
  struct ExpandablePlace {
    ExpandableSegment* segment = nullptr;
    Block* last = nullptr;  // of the range behind which it is
    char* begin = nullptr;
    size_t bytes = 0;
  };

  size_t block_size(size_t bytes) const;
  size_t segment_size(size_t block) const;
  bool is_worth_cutting(const Block& block, size_t size) const;
  bool is_oversize(const Block& block) const { return !block.is_small && block.size >= settings_.max_split; }

  Block* allocate_watched(size_t bytes, c10::StreamId id);
  Block* take(HeldLock& lock, BlockPool& pool, size_t bytes, c10::StreamId id);
  void free_watched(Block* block) noexcept;
  void release(Block* block);

  StreamCache& cache_of(BlockPool& pool, c10::StreamId id);
  BlockPool& pool_of(c10::MempoolId_t id);
  Block* find_free(StreamCache& cache, size_t size, bool is_small);
  Block* grow(HeldLock& lock, StreamCache& cache, size_t size, bool is_small);
  Block* ask_for_block(HeldLock& lock, StreamCache& cache, size_t size, bool is_small);
  Block* shrink_and_retry(HeldLock& lock, StreamCache& cache, size_t size, bool is_small);
  ExpandablePlace find_place(StreamCache& cache, size_t size);
  Block* expand(StreamCache& cache, const ExpandablePlace& place);
  void link(Block* before, Block* after);
  Block* detach_pages(Block* block);
  static bool has_whole_pages(const Block& block);
  void add_segment(Block* first);
  void remove_segment(Block* first);
  void* ask_source(HeldLock& lock, const StreamCache& cache, size_t bytes);
  aclError ask_device(HeldLock& lock, size_t bytes, void** address);
  template <typename Ask>
  void without_lock(HeldLock& lock, size_t bytes, Ask&& ask);
  size_t allowed() const;
  void cut(Block* block, size_t size);
  Block* divide(Block* block, size_t size);

  bool join_recent(StreamCache& cache);
  void join_all();
  void cache_free(Block* block);
  void join(Block* block);
  Block* absorb(Block* block, Block* neighbour);
  void enter(Block* block);
  void leave(Block* block);

  void free_for_users(Block* block);
  void record_users(Block* block);
  void record_deferred();
  void collect_reached();
  void wait_for_users(HeldLock& lock);
  void user_is_done(Block* block);

  template <typename Action>
  void for_each_free_segment(c10::MempoolId_t pool, Action&& action);
  bool has_free_segments(c10::MempoolId_t pool);
  std::vector<Block*> take_segments(c10::MempoolId_t pool);
  std::vector<Block*> take_oldest_segments(size_t bytes);
  void release_segments(HeldLock& lock, const std::vector<Block*>& segments);
  void free_at_source(const Block& block) const;
  void release_segment(Block* block);
  void collect_garbage(HeldLock& lock, size_t bytes);

  BlockView view_of(const Block& block) const;
  Block* new_block();
  void delete_block(Block* block);
  [[noreturn]] void out_of_memory(HeldLock& lock, size_t bytes, c10::StreamId id);

  const c10::DeviceIndex device_;
  std::mutex release_mutex_;  // one thread at a time waits for the device and releases; taken before the next one
  mutable Lock mutex_;        // guards the following
  CacheSettings settings_;
  BlockPool default_pool_;
  std::map<c10::MempoolId_t, BlockPool> pools_;  // the others
  std::unordered_set<Block*> segments_;          // the first block of each, and of each range of expandable ones
  MemoryHistory history_;
  std::unordered_map<NPUStream, std::deque<Pending>> pending_;  // in the order of each stream
  size_t pending_count_ = 0;                                    // with those of deferred_
  std::vector<Block*> deferred_;    // freed while a graph was captured: their users are marked afterwards
  Block* unused_blocks_ = nullptr;  // objects, not memory
  double fraction_ = 1;             // of the device's memory that may be reserved
  size_t asked_for_ = 0;            // bytes that are being asked for without the lock
  uint64_t tick_ = 0;               // counts what the cache could not meet
  std::string refusal_;             // why the device gave no memory when it was last asked in vain
  c10::CachingDeviceAllocator::DeviceStats stats_;
};

}  // namespace torch_npu
