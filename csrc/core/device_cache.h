// The cached memory of one device: what allocator.h promises, device by device.
//
// Thread-safe, by one lock, which is held while the device is asked for memory but not while streams are waited for: who finds
// what it needs in the cache never waits for another's stream.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include <deque>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "core/event.h"
#include "core/free_blocks.h"
#include "core/lock.h"

namespace torch_npu {

// PYTORCH_ALLOC_CONF and what was set since. Read anew whenever the device is asked for memory, so that a hit need not.
struct CacheSettings {
  static CacheSettings read();

  size_t large_segment = 0;
  size_t max_split = 0;           // blocks of this size or more are not cut
  size_t max_extra = 0;           // how much larger than its request such a block may be
  bool rounds_to_powers = false;  // of 2, divided as the settings say
};

class DeviceCache {
 public:
  explicit DeviceCache(c10::DeviceIndex device) : device_(device), settings_(CacheSettings::read()) {}

  // Memory for stream `id` of this device, which the calling thread has bound; `bytes` > 0. Throws c10::OutOfMemoryError.
  Block* allocate(size_t bytes, c10::StreamId id);
  // Never throws.
  void free(Block* block) noexcept;
  void record_stream(Block* block, NPUStream stream);

  // Gives segments that are free back to the device, after waiting for the streams that used them.
  void release_cached();

  // Free neighbours are joined first, so that what lies between blocks in use is counted once.
  c10::CachingDeviceAllocator::DeviceStats stats();
  void reset_accumulated_stats();
  void reset_peak_stats();
  // Bytes that users hold, and bytes that the device gave.
  std::pair<size_t, size_t> usage() const;

  void set_fraction(double fraction);
  double fraction() const;

 private:
  using HeldLock = std::unique_lock<Lock>;
  struct Pending {
    PooledEvent* event;
    Block* block;
  };

  size_t block_size(size_t bytes) const;
  size_t segment_size(size_t block) const;
  bool is_worth_cutting(const Block& block, size_t size) const;
  bool is_oversize(const Block& block) const { return !block.is_small && block.size >= settings_.max_split; }

  StreamCache& cache_of(c10::StreamId id);
  Block* find_free(StreamCache& cache, size_t size, bool is_small);
  Block* grow(HeldLock& lock, StreamCache& cache, size_t size, bool is_small);
  void* ask_device(size_t bytes);
  void cut(Block* block, size_t size);

  bool join_recent(StreamCache& cache);
  void cache_free(Block* block);
  void join(Block* block);
  Block* absorb(Block* block, Block* neighbour);
  void enter(Block* block);
  void leave(Block* block);

  void record_users(Block* block);
  void collect_reached();
  void wait_for_users(HeldLock& lock);
  void user_is_done(Block* block);

  std::vector<Block*> take_segments();
  void release_segments(HeldLock& lock);
  void release_segment(Block* block);

  Block* new_block();
  void delete_block(Block* block);
  [[noreturn]] void out_of_memory(size_t bytes);

  const c10::DeviceIndex device_;
  std::mutex release_mutex_;  // one thread at a time waits for streams and releases; taken before the next one
  mutable Lock mutex_;        // guards the following
  CacheSettings settings_;
  StreamCache* newest_cache_ = nullptr;  // that of the last allocation
  std::unordered_map<c10::StreamId, std::unique_ptr<StreamCache>> caches_;
  std::unordered_map<NPUStream, std::deque<Pending>> pending_;  // in the order of each stream
  size_t pending_count_ = 0;
  Block* unused_blocks_ = nullptr;  // objects, not memory
  double fraction_ = 1;
  size_t allowed_ = SIZE_MAX;  // bytes that may be reserved
  std::string refusal_;        // why the device gave no memory when it was last asked in vain
  c10::CachingDeviceAllocator::DeviceStats stats_;
};

}  // namespace torch_npu
