#include "core/device_cache.h"

#include <c10/core/AllocatorConfig.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>

#include "acl/symbol.h"
#include "core/graph.h"
#include "core/log.h"
#include "core/memory_pool.h"
#include "core/out_of_memory.h"
#include "core/shared_memory.h"
#include "core/wait.h"

namespace torch_npu {
namespace {

using c10::CachingAllocator::format_size;
using c10::CachingAllocator::Stat;
using c10::CachingAllocator::StatArray;
using Config = c10::CachingAllocator::AcceleratorAllocatorConfig;

constexpr size_t kMostSmall = 1 << 20;    // the largest request that shares a small segment
constexpr size_t kMostShared = 10 << 20;  // the largest request that shares a large segment
constexpr size_t kSegmentUnit = 2 << 20;  // what segments of larger requests are rounded to
constexpr size_t kHugePage = 1 << 30;
constexpr size_t kMostBytes = size_t{1} << 60;

size_t round_up(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

// Statistics of the hit path; calls would cost more than what they do.
[[gnu::always_inline]] inline void increase(StatArray& stat, bool is_small, size_t amount) {
  stat[0].increase(amount);
  stat[is_small ? 1 : 2].increase(amount);
}

[[gnu::always_inline]] inline void decrease(StatArray& stat, bool is_small, size_t amount) {
  stat[0].decrease(amount);
  stat[is_small ? 1 : 2].decrease(amount);
}

template <typename Stats, typename Function>
void for_each_stat(Stats& stats, Function&& function) {
  for (StatArray* array : {&stats.allocation, &stats.segment, &stats.active, &stats.inactive_split, &stats.allocated_bytes,
                           &stats.reserved_bytes, &stats.active_bytes, &stats.inactive_split_bytes, &stats.requested_bytes}) {
    for (Stat& stat : *array) function(stat);
  }
  function(stats.oversize_allocations);
  function(stats.oversize_segments);
}

// Goes on after a failure, to throw it in the end.
class FirstFailure {
 public:
  // Whether it threw nothing.
  template <typename Action>
  bool attempt(Action&& action) {
    try {
      action();
      return true;
    } catch (...) {
      if (!failure_) failure_ = std::current_exception();
      return false;
    }
  }
  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  std::exception_ptr failure_;
};

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

// Streams must neither be marked nor asked while a graph is captured.
void DeviceCache::free_for_users(Block* block) {
  if (!captures_exist()) return record_users(block);
  deferred_.push_back(block);
  ++pending_count_;
  ++block->pending_events;
}

void DeviceCache::record_deferred() {
  for (Block* block : std::exchange(deferred_, {})) {
    --pending_count_;
    --block->pending_events;
    record_users(block);
  }
}

// Marks the end of what the other users of `block` hold now; it is free when all marks are reached.
void DeviceCache::record_users(Block* block) {
  const std::vector<NPUStream> users = std::exchange(block->users, {});
  for (const NPUStream stream : users) {
    try {
      PooledEvent* event = take_event(stream.device_index(), Timing::kOff);
      record_event(*event, stream);
      pending_[stream].push_back({event, block});
      ++pending_count_;
      ++block->pending_events;
    } catch (const std::exception&) {  // at exit there is no device to wait for
    }
  }
  if (block->pending_events > 0) return;
  ++block->pending_events;
  user_is_done(block);
}

void DeviceCache::collect_reached() {
  if (captures_exist()) return;
  record_deferred();
  for (auto& [stream, marks] : pending_) {
    while (!marks.empty()) {
      const Pending mark = marks.front();
      if (!event_reached(*mark.event)) break;
      marks.pop_front();
      --pending_count_;
      return_event(mark.event);
      user_is_done(mark.block);
    }
  }
}

// Returns when all marks are reached that were there; the failure of a task before one of them is thrown then. Marks that are
// waited for are nobody else's to collect.
void DeviceCache::wait_for_users(HeldLock& lock) {
  if (pending_count_ == 0) return;
  record_deferred();
  ++stats_.num_sync_all_streams;
  const auto waiting = std::exchange(pending_, {});
  const size_t count = std::exchange(pending_count_, 0);
  FirstFailure failure;
  lock.unlock();
  for (const auto& [stream, marks] : waiting) {
    for (const Pending& mark : marks) failure.attempt([&] { synchronize_event(*mark.event); });
  }
  lock.lock();
  for (const auto& [stream, marks] : waiting) {
    std::deque<Pending>& newer = pending_[stream];
    newer.insert(newer.begin(), marks.begin(), marks.end());
  }
  pending_count_ += count;
  collect_reached();
  failure.rethrow();
}

void DeviceCache::user_is_done(Block* block) {
  if (--block->pending_events > 0) return;
  if (watches_allocations()) history_.record(MemoryEvent::kFreeCompleted, *block);
  cache_free(block);
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

void DeviceCache::join_all() {
  for (const auto& [stream, cache] : default_pool_.caches) join_recent(*cache);
  for (auto& [id, pool] : pools_) {
    for (const auto& [stream, cache] : pool.caches) join_recent(*cache);
  }
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
  for_each_stat(stats_, [](Stat& stat) { stat.reset_accumulated(); });
  stats_.num_alloc_retries = 0;
  stats_.num_ooms = 0;
  stats_.num_sync_all_streams = 0;
  stats_.num_device_alloc = 0;
  stats_.num_device_free = 0;
}

void DeviceCache::reset_peak_stats() {
  const std::lock_guard lock(mutex_);
  for_each_stat(stats_, [](Stat& stat) { stat.reset_peak(); });
}

std::pair<size_t, size_t> DeviceCache::usage() const {
  const std::lock_guard lock(mutex_);
  return {static_cast<size_t>(stats_.allocated_bytes[0].current), static_cast<size_t>(stats_.reserved_bytes[0].current)};
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
