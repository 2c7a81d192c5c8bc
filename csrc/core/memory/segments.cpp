#include "core/memory/segments.h"

#include <c10/util/Exception.h>

#include <algorithm>

#include "acl/symbol.h"
#include "base/first_failure.h"
#include "base/log.h"
#include "core/memory/allocation_sizes.h"
#include "core/stream/all_work.h"

namespace torch_npu {
namespace {

// Called without the lock of the cache: the user's function may wait for a lock, such as Python's, whose holder waits for the
// lock of the cache.
void free_at_source(const Block& block, c10::DeviceIndex device) {
  const AllocatorFunctions* source = block.cache->pool.source;
  if (source != nullptr) source->free(block.address, block.size, device, block.cache->stream.stream());
}

}  // namespace

Block* Segments::get(CacheLock& lock, StreamCache& cache, size_t size, bool is_small) {
  bind_device();  // queries of events on other devices may have bound another one
  const bool may_expand = state_.settings.expands && !is_small && cache.pool.source == nullptr;
  if (const auto place = may_expand ? expansion_.find_place(cache, size) : SegmentExpansion::Place(); place.segment != nullptr) {
    return expansion_.map(cache, place);
  }
  const size_t bytes = segment_size(state_.settings, size);
  void* const address = source_.get(lock, cache, bytes);
  if (address == nullptr) return nullptr;
  Block* block = blocks_.new_block();
  block->expandable = nullptr;
  block->address = static_cast<char*>(address);
  block->size = bytes;
  block->cache = &cache;
  block->is_small = is_small;
  list_.add(block);
  increase(state_.stats.reserved_bytes, is_small, bytes);
  block->is_oversize_segment = is_oversize(state_.settings, *block);
  if (block->is_oversize_segment) state_.stats.oversize_segments.increase(1);
  if (watches_allocations()) state_.history.record(MemoryEvent::kSegmentAlloc, *block);
  return block;
}

// Calls `action` for each block that is a segment or contains whole pages of an expandable one.
template <typename Action>
void Segments::for_each_free(c10::MempoolId_t id, Action&& action) {
  pools_.for_each_named(id, [&](BlockPool& pool) {
    if (pool.graph_count > 0) return;
    for (const auto& [stream, cache] : pool.caches) {
      blocks_.merge_recent(*cache);
      for (Block* block = cache->small.whole_segments(); block != nullptr; block = block->next) action(block);
      for (Block* block : cache->large) {
        if (!block->is_split() || SegmentExpansion::has_whole_pages(*block)) action(block);
      }
    }
  });
}

bool Segments::has_free(c10::MempoolId_t pool) {
  bool any = false;
  for_each_free(pool, [&](const Block*) { any = true; });
  return any;
}

std::vector<Block*> Segments::take_free(c10::MempoolId_t pool) {
  std::vector<Block*> segments;
  for_each_free(pool, [&](Block* block) { segments.push_back(block); });
  for (Block*& block : segments) {
    blocks_.erase(block);
    if (block->is_split()) block = expansion_.detach_pages(block);
  }
  return segments;
}

std::vector<Block*> Segments::take_oldest_free(size_t bytes) {
  std::vector<Block*> segments;
  for (const auto& [stream, cache] : pools_.default_pool().caches) {
    blocks_.merge_recent(*cache);
    for (Block* block : cache->large) {
      if (!block->is_split()) segments.push_back(block);
    }
  }
  std::stable_sort(segments.begin(), segments.end(), [](const Block* a, const Block* b) { return a->freed_at < b->freed_at; });
  size_t sum = 0, count = 0;
  while (count < segments.size() && sum < bytes) sum += segments[count++]->size;
  segments.resize(count);
  for (Block* block : segments) blocks_.erase(block);
  return segments;
}

void Segments::give_back(CacheLock& lock, const std::vector<Block*>& segments) {
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
      for (const Block* block : segments) failure.attempt([&] { free_at_source(*block, state_.device); });
    }
    lock.lock();
    count_leaving(-1);
  }
  for (Block* block : segments) {
    if (is_idle) {
      failure.attempt([&] { give_back_one(block); });
    } else {
      blocks_.insert(block);
    }
  }
  pools_.erase_empty();
  failure.rethrow();
}

void Segments::give_back_one(Block* block) {
  if (logs(LogPart::kMemory, LogLevel::kInfo))
    log(LogPart::kMemory, LogLevel::kInfo, c10::str("gave back ", block->size, " bytes"));
  auto& stats = state_.stats;
  StreamCache& cache = *block->cache;
  ExpandableSegment* const expandable = block->expandable;
  const char* const function = expandable != nullptr ? "aclrtUnmapMem" : "aclrtFree";
  const aclError code = expandable != nullptr          ? expandable->unmap(block->address, block->size)
                        : cache.pool.source == nullptr ? ACL_FN(aclrtFree)(block->address)
                                                       : ACL_SUCCESS;
  if (watches_allocations())
    state_.history.record(expandable != nullptr ? MemoryEvent::kSegmentUnmap : MemoryEvent::kSegmentFree, *block);
  stats.num_device_free += expandable != nullptr ? static_cast<int64_t>(block->size / expandable->page()) : 1;
  list_.remove(block);
  decrease(stats.reserved_bytes, block->is_small, block->size);
  if (block->is_oversize_segment) stats.oversize_segments.decrease(1);
  blocks_.delete_block(block);
  if (expandable != nullptr && expandable->ranges.empty()) {
    std::erase_if(cache.expandable, [&](const auto& segment) { return segment.get() == expandable; });
  }
  acl::check(code, function);  // a segment that the device failed to free is removed all the same
}

}  // namespace torch_npu
