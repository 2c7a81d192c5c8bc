// Makes, splits and merges blocks, and keeps the free ones in the lists of their stream.
//
//   blocks.add_recent(block);                                 // freed
//   Block* block = blocks.take_fit(cache, size, is_small);    // best fit, or null
//   blocks.insert(blocks.split(block, size));                 // keeps `size` bytes; the rest is free
//
// Owns all Block objects of one DeviceCache: unused ones are kept for reuse and never deleted. Not thread-safe: the lock of the
// DeviceCache protects it. Nothing fails except the allocation of host memory.
#pragma once

#include <cstdint>

#include "core/memory/block_pools.h"
#include "core/memory/cache_state.h"

namespace torch_npu {

class FreeBlocks {
 public:
  explicit FreeBlocks(CacheState& state) : state_(state) {}
  FreeBlocks(const FreeBlocks&) = delete;
  FreeBlocks& operator=(const FreeBlocks&) = delete;

  // A block that no stream uses any more becomes a recent block of its stream.
  [[gnu::always_inline]] void add_recent(Block* block) {
    auto& stats = state_.stats;
    decrease(stats.active, block->is_small, 1);
    decrease(stats.active_bytes, block->is_small, block->size);
    decrease(stats.requested_bytes, block->is_small, block->requested);
    block->cache->recent.insert(block, block->rounded, [this](Block* other) { merge(other); });
  }
  // Merges the recent blocks of a stream with their neighbours. Returns whether there were any.
  bool merge_recent(StreamCache& cache);

  // The best fit, removed from its list. Null if there is none that the settings allow.
  Block* take_fit(StreamCache& cache, size_t size, bool is_small);

  // Puts a block that is in no list into the list of its size, and takes it out again.
  void insert(Block* block);
  void erase(Block* block);
  // insert(), together with free neighbours.
  void merge(Block* block);
  // Merges `block`, which is in no list, and a free neighbour; a null or used neighbour is left alone. Returns the merged block,
  // which is in no list.
  Block* absorb(Block* block, Block* neighbour);
  // Shortens a block that is in no list to `size`. Returns the rest, which is in no list either.
  Block* split(Block* block, size_t size);

  // The neighbours are null; the caller sets the other members.
  Block* new_block();
  void delete_block(Block* block);

  // The clock of Block::freed_at. It advances when no free block fits a request.
  void advance_clock() { ++clock_; }

 private:
  CacheState& state_;
  Block* unused_ = nullptr;  // objects without memory, chained by Block::next
  uint64_t clock_ = 0;
};

}  // namespace torch_npu
