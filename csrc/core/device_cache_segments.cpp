// How DeviceCache takes segments from the device and gives them back.
#include <c10/util/Exception.h>

#include <algorithm>

#include "acl/symbol.h"
#include "core/device_cache.h"
#include "core/device_cache_parts.h"
#include "core/graph.h"
#include "core/log.h"
#include "core/shared_memory.h"
#include "core/wait.h"

namespace torch_npu {
namespace {

// Waits for a stream. One that its owner has destroyed has no work left.
void finish(const NPUStream& stream) {
  {
    const BoundDevice bound(stream.device_index());
    aclrtStreamStatus status{};
    if (ACL_FN(aclrtStreamQuery)(stream.stream(), &status) == ACL_ERROR_RT_INVALID_HANDLE) return;
  }
  stream.synchronize();
}

}  // namespace

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
  collect_sent_memory();
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
  if (captures_exist()) return;  // streams cannot be waited for; the next call does it
  const BoundDevice bound(device_);
  const std::lock_guard turn(release_mutex_);
  const UninterruptedWaits scope;
  HeldLock lock(mutex_);
  wait_for_users(lock);
  release_segments(lock, take_segments(pool));
}

void DeviceCache::retain_pool(c10::MempoolId_t id, const AllocatorFunctions* source) {
  const std::lock_guard lock(mutex_);
  const auto [entry, is_new] = pools_.try_emplace(id);
  BlockPool& pool = entry->second;
  if (is_new) {
    pool.id = id;
    pool.source = source;
  }
  ++pool.use_count;
}

void DeviceCache::release_pool(c10::MempoolId_t id) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = pools_.find(id);
    if (found == pools_.end() || --found->second.use_count > 0) return;
    if (found->second.segments == 0) {
      pools_.erase(found);
      return;
    }
  }
  release_cached(id);
}

size_t DeviceCache::pool_use_count(c10::MempoolId_t id) const {
  const std::lock_guard lock(mutex_);
  const auto found = pools_.find(id);
  return found == pools_.end() ? 0 : found->second.use_count;
}

// The segments that are free, stream by stream, out of their caches.
std::vector<Block*> DeviceCache::take_segments(c10::MempoolId_t id) {
  std::vector<Block*> segments;
  const auto collect = [&](BlockPool& pool) {
    for (const auto& [stream, cache] : pool.caches) {
      join_recent(*cache);
      for (Block* block = cache->small.whole_segments(); block != nullptr; block = block->next) segments.push_back(block);
      for (Block* block : cache->large) {
        if (!block->is_split() || has_whole_pages(*block)) segments.push_back(block);
      }
    }
  };
  const bool is_default = default_pool_.id == id;
  if (is_default) collect(default_pool_);
  for (auto& [other, pool] : pools_) {
    if (other == id || (is_default && pool.is_dropped())) collect(pool);
  }
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
  const std::lock_guard turn(release_mutex_);
  const UninterruptedWaits scope;
  lock.lock();
  release_segments(lock, take_oldest_segments(wanted - threshold));
}

// The last users of a segment may still run, and the device frees at once: their stream is waited for. Where that fails its
// segments are kept, and the failure is thrown in the end.
void DeviceCache::release_segments(HeldLock& lock, const std::vector<Block*>& segments) {
  std::unordered_map<const StreamCache*, bool> is_done;
  FirstFailure failure;
  for (Block* block : segments) block->requested = 0;
  lock.unlock();
  for (const Block* block : segments) {
    const auto [entry, is_new] = is_done.try_emplace(block->cache, false);
    if (is_new) entry->second = failure.attempt([&] { finish(block->cache->stream); });
    if (entry->second) failure.attempt([&] { free_at_source(*block); });
  }
  lock.lock();
  for (Block* block : segments) {
    if (is_done.at(block->cache)) {
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
