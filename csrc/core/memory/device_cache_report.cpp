// What DeviceCache tells of its memory: statistics, snapshots, and the error when there is no more.
#include <algorithm>
#include <utility>

#include "core/memory/device_cache.h"
#include "core/memory/memory_pool.h"
#include "core/memory/memory_stats.h"
#include "core/memory/out_of_memory.h"

namespace torch_npu {

void DeviceCache::out_of_memory(HeldLock& lock, size_t bytes, c10::StreamId id) {
  ++stats_.num_ooms;
  const auto [free, total] = device_memory(device_);
  const OutOfMemory event{.device = device_,
                          .requested = bytes,
                          .total = total,
                          .free = free,
                          .allowed = allowed(),
                          .allocated = static_cast<size_t>(stats_.allocated_bytes[0].current),
                          .active = static_cast<size_t>(stats_.active_bytes[0].current),
                          .reserved = static_cast<size_t>(stats_.reserved_bytes[0].current),
                          .reason = std::exchange(refusal_, {})};
  if (watches_allocations()) history_.record(MemoryEvent::kOutOfMemory, free, bytes, id, current_pool(device_));
  lock.unlock();
  throw_out_of_memory(event);
}

std::vector<SegmentView> DeviceCache::segments(std::optional<c10::MempoolId_t> pool) {
  const std::lock_guard lock(mutex_);
  history_.record(MemoryEvent::kSnapshot, 0, 0, 0, {0, 0});
  join_all();
  std::vector<SegmentView> views;
  for (const Block* first : segments_) {
    const StreamCache& cache = *first->cache;
    if (pool && cache.pool.id != *pool) continue;
    SegmentView& segment = views.emplace_back(SegmentView{.device = device_,
                                                          .address = reinterpret_cast<uintptr_t>(first->address),
                                                          .stream = cache.stream.id(),
                                                          .is_small = first->is_small,
                                                          .pool = cache.pool.id,
                                                          .is_expandable = first->expandable != nullptr});
    for (const Block* block = first; block != nullptr; block = block->after) segment.add(view_of(*block));
  }
  std::sort(views.begin(), views.end(), [](const auto& a, const auto& b) { return a.address < b.address; });
  return views;
}

BlockView DeviceCache::view_of(const Block& block) const {
  const bool is_unused = block.is_free || block.requested == 0;
  const BlockView::State state = is_unused                  ? BlockView::kInactive
                                 : block.pending_events > 0 ? BlockView::kPendingFree
                                                            : BlockView::kAllocated;
  return {.address = reinterpret_cast<uintptr_t>(block.address),
          .size = block.size,
          .requested = is_unused ? 0 : block.requested,
          .state = state,
          .stack = is_unused ? nullptr : history_.stack_of(block)};
}

std::vector<MemoryEvent> DeviceCache::events() const {
  const std::lock_guard lock(mutex_);
  return {history_.events().begin(), history_.events().end()};
}

void DeviceCache::clear_history() {
  const std::lock_guard lock(mutex_);
  history_.clear();
}

c10::CachingDeviceAllocator::DeviceStats DeviceCache::stats() {
  const std::lock_guard lock(mutex_);
  join_all();
  auto stats = stats_;
  stats.max_split_size = static_cast<int64_t>(settings_.max_split);
  return stats;
}

void DeviceCache::reset_accumulated_stats() {
  const std::lock_guard lock(mutex_);
  reset_sums(stats_);
}

void DeviceCache::reset_peak_stats() {
  const std::lock_guard lock(mutex_);
  reset_peaks(stats_);
}

std::pair<size_t, size_t> DeviceCache::usage() const {
  const std::lock_guard lock(mutex_);
  return {static_cast<size_t>(stats_.allocated_bytes[0].current), static_cast<size_t>(stats_.reserved_bytes[0].current)};
}

}  // namespace torch_npu
