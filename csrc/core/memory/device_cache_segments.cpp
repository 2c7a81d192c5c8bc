// How DeviceCache takes segments from the device and gives them back.
#include <c10/util/Exception.h>
#include <c10/util/ScopeExit.h>

#include <algorithm>

#include "acl/symbol.h"
#include "base/log.h"
#include "core/graph/graph_parts.h"
#include "core/memory/device_cache.h"
#include "core/memory/device_cache_parts.h"
#include "core/memory/shared_memory.h"
#include "core/stream/all_work.h"
#include "core/stream/open_captures.h"
#include "core/stream/wait.h"

namespace torch_npu {

// A new segment as one block; if the device has none, what can be freed is freed first. Null if that did not help.
Block* DeviceCache::grow(HeldLock& lock, StreamCache& cache, size_t size, bool is_small) {
  ++tick_;
  settings_ = CacheSettings::read();
  if (settings_.most_pending > 0 && pending_count_ > 0) {
    collect_reached();
    join_recent(cache);
    if (Block* block = find_free(cache, size, is_small)) return block;
  }
  collect_garbage(lock, segment_size(size));
  if (Block* block = ask_for_block(lock, cache, size, is_small)) return block;
  return settings_.fails_at_once || captures_exist() ? nullptr : shrink_and_retry(lock, cache, size, is_small);
}

// Null if there is no memory for it.
Block* DeviceCache::ask_for_block(HeldLock& lock, StreamCache& cache, size_t size, bool is_small) {
  bind_device();  // marks of streams of other devices may have been looked at
  const bool may_expand = settings_.expands && !is_small && cache.pool.source == nullptr;
  if (const ExpandablePlace place = may_expand ? find_place(cache, size) : ExpandablePlace(); place.segment != nullptr) {
    return expand(cache, place);
  }
  const size_t bytes = segment_size(size);
  void* const address = ask_source(lock, cache, bytes);
  if (address == nullptr) return nullptr;
  Block* block = new_block();
  block->expandable = nullptr;
  block->address = static_cast<char*>(address);
  block->size = bytes;
  block->cache = &cache;
  block->is_small = is_small;
  add_segment(block);
  increase(stats_.reserved_bytes, is_small, bytes);
  block->is_oversize_segment = is_oversize(*block);
  if (block->is_oversize_segment) stats_.oversize_segments.increase(1);
  if (watches_allocations()) history_.record(MemoryEvent::kSegmentAlloc, *block);
  return block;
}

void DeviceCache::add_segment(Block* first) {
  segments_.insert(first);
  ++first->cache->pool.segments;
  increase(stats_.segment, first->is_small, 1);
  if (first->expandable != nullptr) first->expandable->ranges.emplace(first->address, first);
}

void DeviceCache::remove_segment(Block* first) {
  segments_.erase(first);
  --first->cache->pool.segments;
  decrease(stats_.segment, first->is_small, 1);
  if (first->expandable != nullptr) first->expandable->ranges.erase(first->address);
}

// Gives back what is unused and asks again, unless a block came free meanwhile.
Block* DeviceCache::shrink_and_retry(HeldLock& lock, StreamCache& cache, size_t size, bool is_small) {
  ++stats_.num_alloc_retries;
  lock.unlock();
  const NoCaptures no_captures;
  if (!no_captures.holds()) {
    lock.lock();
    return nullptr;
  }
  let_kept_graphs_go();
  collect_sent_memory();
  wait_for_all_work();  // without the locks, so that it can be interrupted
  const std::lock_guard turn(release_mutex_);
  const UninterruptedWaits scope;  // what the user does then may want that lock
  lock.lock();
  wait_for_users(lock);
  join_recent(cache);
  if (Block* block = find_free(cache, size, is_small)) return block;
  std::vector<Block*> segments = take_segments({0, 0});
  if (!cache.pool.is_default()) {
    const std::vector<Block*> own = take_segments(cache.pool.id);
    segments.insert(segments.end(), own.begin(), own.end());
  }
  release_segments(lock, segments);
  return ask_for_block(lock, cache, size, is_small);
}

// Null if the source or the limit has no more; throws on any other failure.
void* DeviceCache::ask_source(HeldLock& lock, const StreamCache& cache, size_t bytes) {
  const size_t reserved = static_cast<size_t>(stats_.reserved_bytes[0].current) + asked_for_, most = allowed();
  refusal_.clear();
  if (bytes > most || reserved > most - bytes) return nullptr;
  void* address = nullptr;
  if (const AllocatorFunctions* source = cache.pool.source) {
    const aclrtStream stream = cache.stream.stream();
    without_lock(lock, bytes, [&] { address = source->allocate(bytes, device_, stream); });
    if (address == nullptr) {
      refusal_ = "the allocator of the pool returned a null pointer";
      return nullptr;
    }
  } else {
    const aclError code = ask_device(lock, bytes, &address);
    if (acl::is_out_of_memory(code)) {
      if (const char* reason = ACL_FN(aclGetRecentErrMsg)()) refusal_ = reason;
      return nullptr;
    }
    acl::check(code, "aclrtMalloc");
  }
  ++stats_.num_device_alloc;
  if (logs(LogPart::kMemory, LogLevel::kInfo)) log(LogPart::kMemory, LogLevel::kInfo, c10::str("took ", bytes, " bytes"));
  return address;
}

aclError DeviceCache::ask_device(HeldLock& lock, size_t bytes, void** address) {
  const bool is_huge = settings_.has_huge_pages && bytes % kHugePage == 0;
  const aclrtMemMallocPolicy policy = is_huge ? ACL_MEM_MALLOC_HUGE1G_ONLY : ACL_MEM_MALLOC_HUGE_FIRST;
  if (!settings_.asks_unlocked) return ACL_FN(aclrtMalloc)(address, bytes, policy);
  aclError code = ACL_SUCCESS;
  without_lock(lock, bytes, [&] { code = ACL_FN(aclrtMalloc)(address, bytes, policy); });
  return code;
}

// Lets others work while `bytes` are asked for.
template <typename Ask>
void DeviceCache::without_lock(HeldLock& lock, size_t bytes, Ask&& ask) {
  asked_for_ += bytes;
  lock.unlock();
  ask();
  lock.lock();
  asked_for_ -= bytes;
}

size_t DeviceCache::allowed() const {
  if (fraction_ >= 1) return SIZE_MAX;
  return static_cast<size_t>(fraction_ * static_cast<double>(device_memory(device_).second));
}

void DeviceCache::release_cached(c10::MempoolId_t pool) {
  const NoCaptures no_captures;
  if (!no_captures.holds()) return;  // the device cannot be waited for; the next call does it
  const BoundDevice bound(device_);
  if (has_free_segments(pool)) wait_for_all_work();  // without the locks, so that it can be interrupted
  const std::lock_guard turn(release_mutex_);
  const UninterruptedWaits scope;
  HeldLock lock(mutex_);
  wait_for_users(lock);
  release_segments(lock, take_segments(pool));
}

void DeviceCache::retain_pool(c10::MempoolId_t id, const AllocatorFunctions* source, PoolUser user) {
  const std::lock_guard lock(mutex_);
  const auto [entry, is_new] = pools_.try_emplace(id);
  BlockPool& pool = entry->second;
  if (is_new) {
    pool.id = id;
    pool.source = source;
  }
  ++pool.use_count;
  if (user == PoolUser::kGraph) ++pool.graph_count;
}

bool DeviceCache::drop_pool(c10::MempoolId_t id, PoolUser user) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = pools_.find(id);
  if (found == pools_.end()) return false;
  BlockPool& pool = found->second;
  --pool.use_count;
  if (user == PoolUser::kGraph) --pool.graph_count;
  if (!pool.is_dropped()) return false;
  if (pool.segments > 0) return true;
  pools_.erase(found);
  return false;
}

void DeviceCache::release_pool(c10::MempoolId_t id) {
  if (drop_pool(id, PoolUser::kProgram)) release_cached(id);
}

size_t DeviceCache::pool_use_count(c10::MempoolId_t id) const {
  const std::lock_guard lock(mutex_);
  const auto found = pools_.find(id);
  return found == pools_.end() ? 0 : found->second.use_count;
}

// Calls `action` for each block of which a segment, or pages, can be given back. Not of a pool that graphs use: replays write to
// blocks that were freed while their graph was captured.
template <typename Action>
void DeviceCache::for_each_free_segment(c10::MempoolId_t id, Action&& action) {
  const auto visit = [&](BlockPool& pool) {
    if (pool.graph_count > 0) return;
    for (const auto& [stream, cache] : pool.caches) {
      join_recent(*cache);
      for (Block* block = cache->small.whole_segments(); block != nullptr; block = block->next) action(block);
      for (Block* block : cache->large) {
        if (!block->is_split() || has_whole_pages(*block)) action(block);
      }
    }
  };
  const bool is_default = default_pool_.id == id;
  if (is_default) visit(default_pool_);
  for (auto& [other, pool] : pools_) {
    if (other == id || (is_default && pool.is_dropped())) visit(pool);
  }
}

bool DeviceCache::has_free_segments(c10::MempoolId_t id) {
  const std::lock_guard lock(mutex_);
  bool any = false;
  for_each_free_segment(id, [&](const Block*) { any = true; });
  return any;
}

// Takes them out of their caches, stream by stream.
std::vector<Block*> DeviceCache::take_segments(c10::MempoolId_t id) {
  std::vector<Block*> segments;
  for_each_free_segment(id, [&](Block* block) { segments.push_back(block); });
  for (Block*& block : segments) {
    leave(block);
    if (block->is_split()) block = detach_pages(block);
  }
  return segments;
}

// Free segments for large requests, those that were unused longest first, until they are `bytes`.
std::vector<Block*> DeviceCache::take_oldest_segments(size_t bytes) {
  std::vector<Block*> segments;
  for (const auto& [stream, cache] : default_pool_.caches) {
    join_recent(*cache);
    for (Block* block : cache->large) {
      if (!block->is_split()) segments.push_back(block);
    }
  }
  std::stable_sort(segments.begin(), segments.end(), [](const Block* a, const Block* b) { return a->freed_at < b->freed_at; });
  size_t sum = 0, count = 0;
  while (count < segments.size() && sum < bytes) sum += segments[count++]->size;
  segments.resize(count);
  for (Block* block : segments) leave(block);
  return segments;
}

// Before `bytes` more are reserved: brings what is reserved below the threshold of the settings, as far as it is unused.
void DeviceCache::collect_garbage(HeldLock& lock, size_t bytes) {
  if (settings_.collection_threshold <= 0 || captures_exist()) return;
  const size_t most = fraction_ < 1 ? allowed() : device_memory(device_).second;
  const auto threshold = static_cast<size_t>(settings_.collection_threshold * static_cast<double>(most));
  const size_t wanted = static_cast<size_t>(stats_.reserved_bytes[0].current) + bytes;
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
  release_segments(lock, take_oldest_segments(wanted - threshold));
}

// The last users of a segment may still run, on any stream, and the device frees at once: all work is waited for. Where that
// fails the segments are kept, and the failure is thrown. No capture may begin meanwhile (NoCaptures).
void DeviceCache::release_segments(HeldLock& lock, const std::vector<Block*>& segments) {
  FirstFailure failure;
  bool is_idle = true;
  if (!segments.empty()) {
    const auto count_leaving = [&](int change) {
      for (const Block* block : segments) {
        if (block->expandable != nullptr) block->expandable->leaving += change;
      }
    };
    for (Block* block : segments) block->requested = 0;
    count_leaving(1);
    lock.unlock();
    is_idle = failure.attempt(wait_for_all_work);
    if (is_idle) {
      for (const Block* block : segments) failure.attempt([&] { free_at_source(*block); });
    }
    lock.lock();
    count_leaving(-1);
  }
  for (Block* block : segments) {
    if (is_idle) {
      failure.attempt([&] { release_segment(block); });
    } else {
      enter(block);
    }
  }
  std::erase_if(pools_, [](const auto& pool) { return pool.second.is_dropped() && pool.second.segments == 0; });
  failure.rethrow();
}

// The user's function may wait for what others hold, such as Python's lock, while they wait for the lock of the cache: without
// it.
void DeviceCache::free_at_source(const Block& block) const {
  const AllocatorFunctions* source = block.cache->pool.source;
  if (source != nullptr) source->free(block.address, block.size, device_, block.cache->stream.stream());
}

void DeviceCache::release_segment(Block* block) {
  if (logs(LogPart::kMemory, LogLevel::kInfo))
    log(LogPart::kMemory, LogLevel::kInfo, c10::str("gave back ", block->size, " bytes"));
  StreamCache& cache = *block->cache;
  ExpandableSegment* const expandable = block->expandable;
  const char* const function = expandable != nullptr ? "aclrtUnmapMem" : "aclrtFree";
  const aclError code = expandable != nullptr          ? expandable->unmap(block->address, block->size)
                        : cache.pool.source == nullptr ? ACL_FN(aclrtFree)(block->address)
                                                       : ACL_SUCCESS;
  if (watches_allocations())
    history_.record(expandable != nullptr ? MemoryEvent::kSegmentUnmap : MemoryEvent::kSegmentFree, *block);
  stats_.num_device_free += expandable != nullptr ? static_cast<int64_t>(block->size / expandable->page()) : 1;
  remove_segment(block);
  decrease(stats_.reserved_bytes, block->is_small, block->size);
  if (block->is_oversize_segment) stats_.oversize_segments.decrease(1);
  delete_block(block);
  if (expandable != nullptr && expandable->ranges.empty()) {
    std::erase_if(cache.expandable, [&](const auto& segment) { return segment.get() == expandable; });
  }
  acl::check(code, function);  // a damaged segment is gone all the same
}

}  // namespace torch_npu
