#include "core/memory/device_cache.h"

#include <c10/util/ScopeExit.h>

#include <algorithm>

#include "core/memory/allocation_sizes.h"
#include "core/memory/kept_graphs.h"
#include "core/memory/memory_pool.h"
#include "core/memory/memory_stats.h"
#include "core/memory/out_of_memory.h"
#include "core/memory/shared_memory.h"
#include "core/stream/all_work.h"
#include "core/stream/open_captures.h"
#include "core/stream/wait.h"

namespace torch_npu {

Block* DeviceCache::allocate(size_t bytes, c10::StreamId id) {
  if (watches_allocations()) [[unlikely]]
    return allocate_watched(bytes, id);
  CacheLock lock(mutex_);
  return take(lock, pools_.default_pool(), bytes, id);
}

Block* DeviceCache::allocate_watched(size_t bytes, c10::StreamId id) {
  const MemoryHistory::Caller caller(MemoryEvent::kAlloc);
  const std::optional<c10::MempoolId_t> captured = capture_pool(NPUStream(state_.device, id));
  CacheLock lock(mutex_);
  Block* block = take(lock, pools_.find(captured.value_or(current_pool(state_.device))), bytes, id);
  state_.history.record(MemoryEvent::kAlloc, *block);
  return block;
}

[[gnu::always_inline]] inline Block* DeviceCache::take(CacheLock& lock, BlockPool& pool, size_t bytes, c10::StreamId id) {
  if (bytes >= kMostBytes) [[unlikely]]
    out_of_memory(lock, bytes, id);
  const size_t size = block_size(state_.settings, bytes);
  const bool is_small = size <= kMostSmall;
  if (pending_.count() > state_.settings.most_pending) pending_.collect_reached();
  StreamCache& cache = pools_.cache_of(pool, id);
  Block* block = cache.recent.take(size);
  if (block == nullptr) [[unlikely]] {
    block = blocks_.take_fit(cache, size, is_small);
    if (block == nullptr && blocks_.merge_recent(cache)) block = blocks_.take_fit(cache, size, is_small);
    if (block == nullptr) block = grow(lock, cache, size, is_small);
    if (block == nullptr) out_of_memory(lock, bytes, id);
    if (is_worth_splitting(state_.settings, *block, size)) blocks_.insert(blocks_.split(block, size));
  }
  block->requested = bytes;
  block->rounded = size;
  auto& stats = state_.stats;
  increase(stats.allocation, is_small, 1);
  increase(stats.allocated_bytes, is_small, block->size);
  increase(stats.active, is_small, 1);
  increase(stats.active_bytes, is_small, block->size);
  increase(stats.requested_bytes, is_small, bytes);
  block->is_oversize = is_oversize(state_.settings, *block);
  if (block->is_oversize) stats.oversize_allocations.increase(1);
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
  state_.history.record(MemoryEvent::kFreeRequested, *block);
  if (block->users.empty()) state_.history.record(MemoryEvent::kFreeCompleted, *block);
  release(block);
}

[[gnu::always_inline]] inline void DeviceCache::release(Block* block) {
  auto& stats = state_.stats;
  decrease(stats.allocation, block->is_small, 1);
  decrease(stats.allocated_bytes, block->is_small, block->size);
  if (block->is_oversize) stats.oversize_allocations.decrease(1);
  if (!block->users.empty()) [[unlikely]] {
    pending_.add(block);
    return;
  }
  blocks_.add_recent(block);
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

// A block of new memory, in no list. If the device has none, unused memory is freed first. Null if that did not help.
Block* DeviceCache::grow(CacheLock& lock, StreamCache& cache, size_t size, bool is_small) {
  blocks_.advance_clock();
  CacheSettings& settings = state_.settings;
  settings = CacheSettings::read();
  if (settings.most_pending > 0 && pending_.count() > 0) {
    pending_.collect_reached();
    blocks_.merge_recent(cache);
    if (Block* block = blocks_.take_fit(cache, size, is_small)) return block;
  }
  collect_garbage(lock, segment_size(settings, size));
  if (Block* block = segments_.get(lock, cache, size, is_small)) return block;
  return settings.fails_at_once || captures_exist() ? nullptr : shrink_and_retry(lock, cache, size, is_small);
}

// Gives unused memory back and asks the device again, unless another thread freed a fitting block in the meantime.
Block* DeviceCache::shrink_and_retry(CacheLock& lock, StreamCache& cache, size_t size, bool is_small) {
  ++state_.stats.num_alloc_retries;
  lock.unlock();
  const NoCaptures no_captures;
  if (!no_captures.holds()) {
    lock.lock();
    return nullptr;
  }
  release_kept_graphs();
  collect_sent_memory();
  wait_for_all_work();  // without the locks, so that it can be interrupted
  const std::lock_guard turn(release_mutex_);
  const UninterruptedWaits scope;  // an interrupt runs code of the user, which may need release_mutex_
  lock.lock();
  pending_.wait(lock);
  blocks_.merge_recent(cache);
  if (Block* block = blocks_.take_fit(cache, size, is_small)) return block;
  std::vector<Block*> segments = segments_.take_free({0, 0});
  if (!cache.pool.is_default()) {
    const std::vector<Block*> own = segments_.take_free(cache.pool.id);
    segments.insert(segments.end(), own.begin(), own.end());
  }
  segments_.give_back(lock, segments);
  return segments_.get(lock, cache, size, is_small);
}

// With garbage_collection_threshold: gives unused segments back until `bytes` more stay below the threshold.
void DeviceCache::collect_garbage(CacheLock& lock, size_t bytes) {
  if (state_.settings.collection_threshold <= 0 || captures_exist()) return;
  const size_t most = source_.fraction() < 1 ? source_.limit() : device_memory(state_.device).second;
  const auto threshold = static_cast<size_t>(state_.settings.collection_threshold * static_cast<double>(most));
  const size_t wanted = static_cast<size_t>(state_.stats.reserved_bytes[0].current) + bytes;
  if (wanted <= threshold) return;
  lock.unlock();
  const auto relock = c10::make_scope_exit([&] {
    if (!lock.owns_lock()) lock.lock();
  });
  const NoCaptures no_captures;
  if (!no_captures.holds()) return;
  const std::lock_guard turn(release_mutex_);
  const UninterruptedWaits scope;
  lock.lock();
  segments_.give_back(lock, segments_.take_oldest_free(wanted - threshold));
}

void DeviceCache::release_cached(c10::MempoolId_t pool) {
  const NoCaptures no_captures;
  if (!no_captures.holds()) return;  // the device refuses waits during a capture
  const BoundDevice bound(state_.device);
  if (has_free_segments(pool)) wait_for_all_work();  // without the locks, so that it can be interrupted
  const std::lock_guard turn(release_mutex_);
  const UninterruptedWaits scope;
  CacheLock lock(mutex_);
  pending_.wait(lock);
  segments_.give_back(lock, segments_.take_free(pool));
}

bool DeviceCache::has_free_segments(c10::MempoolId_t pool) {
  const std::lock_guard lock(mutex_);
  return segments_.has_free(pool);
}

void DeviceCache::retain_pool(c10::MempoolId_t id, const AllocatorFunctions* source, PoolHolder holder) {
  const std::lock_guard lock(mutex_);
  pools_.retain(id, source, holder);
}

bool DeviceCache::drop_pool(c10::MempoolId_t id, PoolHolder holder) noexcept {
  const std::lock_guard lock(mutex_);
  return pools_.drop(id, holder);
}

void DeviceCache::release_pool(c10::MempoolId_t id) {
  if (drop_pool(id, PoolHolder::kProgram)) release_cached(id);
}

size_t DeviceCache::pool_use_count(c10::MempoolId_t id) const {
  const std::lock_guard lock(mutex_);
  return pools_.use_count(id);
}

// Throws without the lock, because observers of the error may use the cache.
void DeviceCache::out_of_memory(CacheLock& lock, size_t bytes, c10::StreamId id) {
  auto& stats = state_.stats;
  ++stats.num_ooms;
  const auto [free, total] = device_memory(state_.device);
  const OutOfMemory event{.device = state_.device,
                          .requested = bytes,
                          .total = total,
                          .free = free,
                          .allowed = source_.limit(),
                          .allocated = static_cast<size_t>(stats.allocated_bytes[0].current),
                          .active = static_cast<size_t>(stats.active_bytes[0].current),
                          .reserved = static_cast<size_t>(stats.reserved_bytes[0].current),
                          .reason = source_.take_refusal()};
  if (watches_allocations()) state_.history.record(MemoryEvent::kOutOfMemory, free, bytes, id, current_pool(state_.device));
  lock.unlock();
  throw_out_of_memory(event);
}

std::vector<SegmentView> DeviceCache::segments(std::optional<c10::MempoolId_t> pool) {
  const std::lock_guard lock(mutex_);
  state_.history.record(MemoryEvent::kSnapshot, 0, 0, 0, {0, 0});
  merge_all();
  return list_.views(pool);
}

std::vector<MemoryEvent> DeviceCache::events() const {
  const std::lock_guard lock(mutex_);
  return {state_.history.events().begin(), state_.history.events().end()};
}

void DeviceCache::clear_history() {
  const std::lock_guard lock(mutex_);
  state_.history.clear();
}

c10::CachingDeviceAllocator::DeviceStats DeviceCache::stats() {
  const std::lock_guard lock(mutex_);
  merge_all();
  auto stats = state_.stats;
  stats.max_split_size = static_cast<int64_t>(state_.settings.max_split);
  return stats;
}

void DeviceCache::merge_all() {
  pools_.for_each([&](BlockPool& pool) {
    for (const auto& [stream, cache] : pool.caches) blocks_.merge_recent(*cache);
  });
}

void DeviceCache::reset_accumulated_stats() {
  const std::lock_guard lock(mutex_);
  reset_sums(state_.stats);
}

void DeviceCache::reset_peak_stats() {
  const std::lock_guard lock(mutex_);
  reset_peaks(state_.stats);
}

std::pair<size_t, size_t> DeviceCache::usage() const {
  const std::lock_guard lock(mutex_);
  const auto& stats = state_.stats;
  return {static_cast<size_t>(stats.allocated_bytes[0].current), static_cast<size_t>(stats.reserved_bytes[0].current)};
}

void DeviceCache::read_settings() {
  const std::lock_guard lock(mutex_);
  state_.settings = CacheSettings::read();
}

void DeviceCache::set_fraction(double fraction) {
  const std::lock_guard lock(mutex_);
  source_.set_fraction(fraction);
}

double DeviceCache::fraction() const {
  const std::lock_guard lock(mutex_);
  return source_.fraction();
}

}  // namespace torch_npu
