#include "core/memory/device_cache.h"

#include <c10/core/AllocatorConfig.h>

#include <bit>

#include "core/graph/graph.h"
#include "core/memory/device_cache_parts.h"
#include "core/memory/memory_pool.h"

namespace torch_npu {
namespace {

using Config = c10::CachingAllocator::AcceleratorAllocatorConfig;

constexpr size_t kMostSmall = 1 << 20;    // the largest request that shares a small segment
constexpr size_t kMostShared = 10 << 20;  // the largest request that shares a large segment
constexpr size_t kSegmentUnit = 2 << 20;  // what segments of larger requests are rounded to
constexpr size_t kMostBytes = size_t{1} << 60;

}  // namespace

size_t DeviceCache::block_size(size_t bytes) const {
  if (settings_.rounds_to_powers) [[unlikely]] {
    const size_t divisions = Config::roundup_power2_divisions(bytes);
    const bool applies = divisions > 1 && bytes > SmallBlocks::kUnit * divisions && !std::has_single_bit(bytes);
    if (applies) bytes = round_up(bytes, std::bit_floor(bytes) / divisions);
  }
  return round_up(bytes, SmallBlocks::kUnit);
}

size_t DeviceCache::segment_size(size_t block) const {
  if (block <= kMostSmall) return SmallBlocks::kSegment;
  if (settings_.has_huge_pages) return round_up(block, kHugePage);
  if (block < kMostShared) return settings_.large_segment;
  return round_up(block, kSegmentUnit);
}

bool DeviceCache::is_worth_cutting(const Block& block, size_t size) const {
  const size_t rest = block.size - size;
  if (block.is_small) return rest >= SmallBlocks::kUnit;
  return size < settings_.max_split && rest > kMostSmall;
}

Block* DeviceCache::allocate(size_t bytes, c10::StreamId id) {
  if (watches_allocations()) [[unlikely]]
    return allocate_watched(bytes, id);
  HeldLock lock(mutex_);
  return take(lock, default_pool_, bytes, id);
}

Block* DeviceCache::allocate_watched(size_t bytes, c10::StreamId id) {
  const MemoryHistory::Caller caller(MemoryEvent::kAlloc);
  const std::optional<c10::MempoolId_t> captured = capture_pool(NPUStream(device_, id));
  HeldLock lock(mutex_);
  Block* block = take(lock, pool_of(captured.value_or(current_pool(device_))), bytes, id);
  history_.record(MemoryEvent::kAlloc, *block);
  return block;
}

[[gnu::always_inline]] inline Block* DeviceCache::take(HeldLock& lock, BlockPool& pool, size_t bytes, c10::StreamId id) {
  if (bytes >= kMostBytes) [[unlikely]]
    out_of_memory(lock, bytes, id);
  const size_t size = block_size(bytes);
  const bool is_small = size <= kMostSmall;
  if (pending_count_ > settings_.most_pending) collect_reached();
  StreamCache& cache = cache_of(pool, id);
  Block* block = cache.recent.take(size);
  if (block == nullptr) [[unlikely]] {
    block = find_free(cache, size, is_small);
    if (block == nullptr && join_recent(cache)) block = find_free(cache, size, is_small);
    if (block == nullptr) block = grow(lock, cache, size, is_small);
    if (block == nullptr) out_of_memory(lock, bytes, id);
    if (is_worth_cutting(*block, size)) cut(block, size);
  }
  block->requested = bytes;
  block->rounded = size;
  increase(stats_.allocation, is_small, 1);
  increase(stats_.allocated_bytes, is_small, block->size);
  increase(stats_.active, is_small, 1);
  increase(stats_.active_bytes, is_small, block->size);
  increase(stats_.requested_bytes, is_small, bytes);
  block->is_oversize = is_oversize(*block);
  if (block->is_oversize) stats_.oversize_allocations.increase(1);
  return block;
}

void DeviceCache::free(Block* block) noexcept {
  if (watches_allocations()) [[unlikely]] {
    free_watched(block);
    return;
  }
  const std::lock_guard lock(mutex_);
  release(block);
}

void DeviceCache::free_watched(Block* block) noexcept {
  const MemoryHistory::Caller caller(MemoryEvent::kFreeRequested);
  const std::lock_guard lock(mutex_);
  history_.record(MemoryEvent::kFreeRequested, *block);
  if (block->users.empty()) history_.record(MemoryEvent::kFreeCompleted, *block);
  release(block);
}

[[gnu::always_inline]] inline void DeviceCache::release(Block* block) {
  decrease(stats_.allocation, block->is_small, 1);
  decrease(stats_.allocated_bytes, block->is_small, block->size);
  if (block->is_oversize) stats_.oversize_allocations.decrease(1);
  if (!block->users.empty()) [[unlikely]] {
    free_for_users(block);
    return;
  }
  cache_free(block);
}

void DeviceCache::record_stream(Block* block, NPUStream stream) {
  if (stream == block->cache->stream) return;
  const std::lock_guard lock(mutex_);
  if (std::find(block->users.begin(), block->users.end(), stream) == block->users.end()) block->users.push_back(stream);
}

MemoryRange DeviceCache::segment_of(const Block& block) const {
  const std::lock_guard lock(mutex_);
  if (const ExpandableSegment* segment = block.expandable) {
    char* const begin = segment->page_of(block.address);
    return {begin, static_cast<size_t>(segment->next_page(block.address + block.size) - begin), block.cache->stream};
  }
  const Block *first = &block, *last = &block;
  while (first->before != nullptr) first = first->before;
  while (last->after != nullptr) last = last->after;
  return {first->address, static_cast<size_t>(last->address + last->size - first->address), block.cache->stream};
}

StreamCache& DeviceCache::cache_of(BlockPool& pool, c10::StreamId id) {
  if (pool.newest_cache != nullptr && pool.newest_cache->stream.id() == id) return *pool.newest_cache;
  std::unique_ptr<StreamCache>& cache = pool.caches[id];
  if (cache == nullptr) cache.reset(new StreamCache{*this, pool, NPUStream(device_, id)});
  pool.newest_cache = cache.get();
  return *cache;
}

BlockPool& DeviceCache::pool_of(c10::MempoolId_t id) {
  const auto found = pools_.find(id);
  return found == pools_.end() ? default_pool_ : found->second;
}

// The block is taken out of the cache.
Block* DeviceCache::find_free(StreamCache& cache, size_t size, bool is_small) {
  Block* block = is_small ? cache.small.best_fit(size) : cache.large.best_fit(size);
  if (block == nullptr) return nullptr;
  if (!is_small) {
    // Blocks that must not be cut are kept for requests of about their size.
    if (size < settings_.max_split && block->size >= settings_.max_split) return nullptr;
    if (size >= settings_.max_split && block->size - size >= settings_.max_extra) return nullptr;
  }
  leave(block);
  return block;
}

// Keeps the first `size` bytes of a block that is in no cache and puts the rest into it.
void DeviceCache::cut(Block* block, size_t size) { enter(divide(block, size)); }

// The same, but the rest is returned.
Block* DeviceCache::divide(Block* block, size_t size) {
  Block* rest = new_block();
  rest->address = block->address + size;
  rest->size = block->size - size;
  rest->cache = block->cache;
  rest->is_small = block->is_small;
  rest->is_oversize_segment = false;
  rest->expandable = block->expandable;
  rest->before = block;
  rest->after = block->after;
  if (rest->after != nullptr) rest->after->before = rest;
  block->after = rest;
  block->size = size;
  return rest;
}

// Whether that changed what is free.
bool DeviceCache::join_recent(StreamCache& cache) {
  return cache.recent.evict_all([this](Block* block) { join(block); });
}

void DeviceCache::cache_free(Block* block) {
  decrease(stats_.active, block->is_small, 1);
  decrease(stats_.active_bytes, block->is_small, block->size);
  decrease(stats_.requested_bytes, block->is_small, block->requested);
  block->cache->recent.insert(block, block->rounded, [this](Block* other) { join(other); });
}

// Puts a block among the free ones by size, together with neighbours that are there.
void DeviceCache::join(Block* block) {
  block = absorb(block, block->before);
  block = absorb(block, block->after);
  enter(block);
}

// Joins `block` and a neighbour that is free, into the one with the lower address; returns what then stands for `block`.
Block* DeviceCache::absorb(Block* block, Block* neighbour) {
  if (neighbour == nullptr || !neighbour->is_free) return block;
  leave(neighbour);
  Block* low = neighbour == block->before ? neighbour : block;
  Block* high = low == block ? neighbour : block;
  low->size += high->size;
  low->after = high->after;
  if (low->after != nullptr) low->after->before = low;
  delete_block(high);
  return low;
}

void DeviceCache::enter(Block* block) {
  block->is_free = true;
  block->freed_at = tick_;
  if (block->is_small) {
    block->cache->small.insert(block);
  } else {
    block->cache->large.insert(block);
  }
  if (!block->is_split()) return;
  increase(stats_.inactive_split, block->is_small, 1);
  increase(stats_.inactive_split_bytes, block->is_small, block->size);
}

void DeviceCache::leave(Block* block) {
  block->is_free = false;
  if (block->is_small) {
    block->cache->small.erase(block);
  } else {
    block->cache->large.erase(block);
  }
  if (!block->is_split()) return;
  decrease(stats_.inactive_split, block->is_small, 1);
  decrease(stats_.inactive_split_bytes, block->is_small, block->size);
}

Block* DeviceCache::new_block() {
  if (unused_blocks_ == nullptr) return new Block;
  Block* block = unused_blocks_;
  unused_blocks_ = block->next;
  block->before = block->after = nullptr;
  return block;
}

void DeviceCache::delete_block(Block* block) {
  block->next = unused_blocks_;
  unused_blocks_ = block;
}

void DeviceCache::join_all() {
  for (const auto& [stream, cache] : default_pool_.caches) join_recent(*cache);
  for (auto& [id, pool] : pools_) {
    for (const auto& [stream, cache] : pool.caches) join_recent(*cache);
  }
}

void DeviceCache::read_settings() {
  const std::lock_guard lock(mutex_);
  settings_ = CacheSettings::read();
}

void DeviceCache::set_fraction(double fraction) {
  const std::lock_guard lock(mutex_);
  fraction_ = fraction;
}

double DeviceCache::fraction() const {
  const std::lock_guard lock(mutex_);
  return fraction_;
}

}  // namespace torch_npu
