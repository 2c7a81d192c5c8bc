#include "core/device_cache.h"

#include <c10/core/AllocatorConfig.h>
#include <c10/util/Exception.h>

#include <algorithm>

#include "acl/symbol.h"
#include "core/wait.h"

namespace torch_npu {
namespace {

using c10::CachingAllocator::format_size;
using c10::CachingAllocator::Stat;
using c10::CachingAllocator::StatArray;
using Config = c10::CachingAllocator::AcceleratorAllocatorConfig;

constexpr size_t kMostSmall = 1 << 20;      // the largest request that shares a small segment
constexpr size_t kMostShared = 10 << 20;    // the largest request that shares a large segment
constexpr size_t kLargeSegment = 20 << 20;  // unless the settings say otherwise
constexpr size_t kSegmentUnit = 2 << 20;    // what segments of larger requests are rounded to
constexpr size_t kMostBytes = size_t{1} << 60;

size_t round_up(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

// Older versions of torch have no such setting.
template <typename Settings>
size_t large_segment_size() {
  if constexpr (requires { Settings::large_segment_size(); }) return Settings::large_segment_size();
  return kLargeSegment;
}

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

}  // namespace

CacheSettings CacheSettings::read() {
  const std::vector<size_t>& divisions = Config::roundup_power2_divisions();
  return {.large_segment = large_segment_size<Config>(),
          .max_split = Config::max_split_size(),
          .max_extra = Config::max_non_split_rounding_size(),
          .rounds_to_powers = std::any_of(divisions.begin(), divisions.end(), [](size_t count) { return count > 1; })};
}

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
  if (block < kMostShared) return settings_.large_segment;
  return round_up(block, kSegmentUnit);
}

bool DeviceCache::is_worth_cutting(const Block& block, size_t size) const {
  const size_t rest = block.size - size;
  if (block.is_small) return rest >= SmallBlocks::kUnit;
  return size < settings_.max_split && rest > kMostSmall;
}

Block* DeviceCache::allocate(size_t bytes, c10::StreamId id) {
  HeldLock lock(mutex_);
  if (bytes >= kMostBytes) [[unlikely]]
    out_of_memory(bytes);
  const size_t size = block_size(bytes);
  const bool is_small = size <= kMostSmall;
  if (pending_count_ > 0) collect_reached();
  StreamCache& cache = cache_of(id);
  Block* block = cache.recent.take(size);
  if (block == nullptr) [[unlikely]] {
    block = find_free(cache, size, is_small);
    if (block == nullptr && join_recent(cache)) block = find_free(cache, size, is_small);
    if (block == nullptr) block = grow(lock, cache, size, is_small);
    if (block == nullptr) out_of_memory(bytes);
    if (is_worth_cutting(*block, size)) cut(block, size);
  }
  block->requested = bytes;
  increase(stats_.allocation, is_small, 1);
  increase(stats_.allocated_bytes, is_small, block->size);
  increase(stats_.active, is_small, 1);
  increase(stats_.active_bytes, is_small, block->size);
  increase(stats_.requested_bytes, is_small, bytes);
  if (is_oversize(*block)) stats_.oversize_allocations.increase(1);
  return block;
}

void DeviceCache::free(Block* block) noexcept {
  const std::lock_guard lock(mutex_);
  decrease(stats_.allocation, block->is_small, 1);
  decrease(stats_.allocated_bytes, block->is_small, block->size);
  if (is_oversize(*block)) stats_.oversize_allocations.decrease(1);
  if (!block->users.empty()) [[unlikely]] {
    record_users(block);
    return;
  }
  cache_free(block);
}

void DeviceCache::record_stream(Block* block, NPUStream stream) {
  if (stream == block->cache->stream) return;
  const std::lock_guard lock(mutex_);
  if (std::find(block->users.begin(), block->users.end(), stream) == block->users.end()) block->users.push_back(stream);
}

StreamCache& DeviceCache::cache_of(c10::StreamId id) {
  if (newest_cache_ != nullptr && newest_cache_->stream.id() == id) return *newest_cache_;
  std::unique_ptr<StreamCache>& cache = caches_[id];
  if (cache == nullptr) cache.reset(new StreamCache{*this, NPUStream(device_, id)});
  newest_cache_ = cache.get();
  return *cache;
}

// The block is taken out of the cache.
Block* DeviceCache::find_free(StreamCache& cache, size_t size, bool is_small) {
  Block* block = is_small ? cache.small.best_fit(size) : cache.large.best_fit(size);
  if (block == nullptr) return nullptr;
  if (!is_small) {
    // Blocks that must not be cut are kept for requests of about their size.
    if (size < settings_.max_split && block->size >= settings_.max_split) return nullptr;
    if (size >= settings_.max_split && block->size >= size + settings_.max_extra) return nullptr;
  }
  leave(block);
  return block;
}

// A new segment as one block; if the device has none, what can be freed is freed first. Null if that did not help.
Block* DeviceCache::grow(HeldLock& lock, StreamCache& cache, size_t size, bool is_small) {
  settings_ = CacheSettings::read();
  const size_t bytes = segment_size(size);
  void* address = ask_device(bytes);
  if (address == nullptr) {
    ++stats_.num_alloc_retries;
    lock.unlock();
    const std::lock_guard turn(release_mutex_);
    const UninterruptedWaits scope;  // what the user does then may want that lock
    lock.lock();
    wait_for_users(lock);
    join_recent(cache);
    if (Block* block = find_free(cache, size, is_small)) return block;
    release_segments(lock);
    address = ask_device(bytes);
  }
  if (address == nullptr) return nullptr;
  Block* block = new_block();
  block->address = static_cast<char*>(address);
  block->size = bytes;
  block->cache = &cache;
  block->is_small = is_small;
  increase(stats_.segment, is_small, 1);
  increase(stats_.reserved_bytes, is_small, bytes);
  if (is_oversize(*block)) stats_.oversize_segments.increase(1);
  return block;
}

// Null if the device or the limit has no more; throws on any other failure.
void* DeviceCache::ask_device(size_t bytes) {
  const auto reserved = static_cast<size_t>(stats_.reserved_bytes[0].current);
  refusal_.clear();
  if (bytes > allowed_ || reserved > allowed_ - bytes) return nullptr;
  void* address = nullptr;
  const aclError code = ACL_FN(aclrtMalloc)(&address, bytes, ACL_MEM_MALLOC_HUGE_FIRST);
  if (acl::is_out_of_memory(code)) {
    if (const char* reason = ACL_FN(aclGetRecentErrMsg)()) refusal_ = reason;
    return nullptr;
  }
  acl::check(code, "aclrtMalloc");
  ++stats_.num_device_alloc;
  return address;
}

// Keeps the first `size` bytes of a block that is in no cache and puts the rest into it.
void DeviceCache::cut(Block* block, size_t size) {
  Block* rest = new_block();
  rest->address = block->address + size;
  rest->size = block->size - size;
  rest->cache = block->cache;
  rest->is_small = block->is_small;
  rest->before = block;
  rest->after = block->after;
  if (rest->after != nullptr) rest->after->before = rest;
  block->after = rest;
  block->size = size;
  enter(rest);
}

// Whether that changed what is free.
bool DeviceCache::join_recent(StreamCache& cache) {
  return cache.recent.evict_all([this](Block* block) { join(block); });
}

void DeviceCache::cache_free(Block* block) {
  decrease(stats_.active, block->is_small, 1);
  decrease(stats_.active_bytes, block->is_small, block->size);
  decrease(stats_.requested_bytes, block->is_small, block->requested);
  block->cache->recent.insert(block, block_size(block->requested), [this](Block* other) { join(other); });
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
  if (block->pending_events == 0) cache_free(block);
}

void DeviceCache::collect_reached() {
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
  if (--block->pending_events == 0) cache_free(block);
}

void DeviceCache::release_cached() {
  const BoundDevice bound(device_);
  const std::lock_guard turn(release_mutex_);
  const UninterruptedWaits scope;
  HeldLock lock(mutex_);
  wait_for_users(lock);
  release_segments(lock);
}

// The segments that are free, stream by stream, out of their caches.
std::vector<Block*> DeviceCache::take_segments() {
  std::vector<Block*> segments;
  for (const auto& [id, cache] : caches_) {
    join_recent(*cache);
    for (Block* block = cache->small.whole_segments(); block != nullptr; block = block->next) segments.push_back(block);
    for (Block* block : cache->large) {
      if (!block->is_split()) segments.push_back(block);
    }
  }
  for (Block* block : segments) leave(block);
  return segments;
}

// The last users of a segment may still run, and the device frees at once: their stream is waited for. Where that fails its
// segments are kept, and the failure is thrown in the end.
void DeviceCache::release_segments(HeldLock& lock) {
  const std::vector<Block*> segments = take_segments();
  std::unordered_map<const StreamCache*, bool> is_done;
  FirstFailure failure;
  lock.unlock();
  for (const Block* block : segments) {
    const auto [entry, is_new] = is_done.try_emplace(block->cache, false);
    if (is_new) entry->second = failure.attempt([&] { block->cache->stream.synchronize(); });
  }
  lock.lock();
  for (Block* block : segments) {
    if (is_done.at(block->cache)) {
      failure.attempt([&] { release_segment(block); });
    } else {
      enter(block);
    }
  }
  failure.rethrow();
}

void DeviceCache::release_segment(Block* block) {
  const aclError code = ACL_FN(aclrtFree)(block->address);
  ++stats_.num_device_free;
  decrease(stats_.segment, block->is_small, 1);
  decrease(stats_.reserved_bytes, block->is_small, block->size);
  if (is_oversize(*block)) stats_.oversize_segments.decrease(1);
  delete_block(block);
  acl::check(code, "aclrtFree");  // a damaged segment is gone all the same
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

void DeviceCache::out_of_memory(size_t bytes) {
  ++stats_.num_ooms;
  const auto [free, total] = device_memory(device_);
  const auto reserved = static_cast<size_t>(stats_.reserved_bytes[0].current);
  const auto allocated = static_cast<size_t>(stats_.allocated_bytes[0].current);
  c10::reportOutOfMemoryToProfiler(static_cast<int64_t>(bytes), allocated, reserved, npu_device(device_));
  const std::string limit =
      allowed_ == SIZE_MAX ? std::string() : c10::str(" ", format_size(allowed_), " are allowed for this process.");
  TORCH_CHECK_WITH(
      OutOfMemoryError, false, "NPU out of memory. Tried to allocate ", format_size(bytes), ". NPU ", int{device_},
      " has a total capacity of ", format_size(total), " of which ", format_size(free), " is free.", limit,
      refusal_.empty() ? "" : " The device says: ", refusal_, refusal_.empty() ? "" : ".", " Of the memory of this process ",
      format_size(allocated), " is allocated by PyTorch, and ", format_size(reserved - allocated),
      " is reserved by PyTorch but unallocated. If that is much, PYTORCH_NPU_ALLOC_CONF=max_split_size_mb:<n> may help "
      "against fragmentation.");
}

c10::CachingDeviceAllocator::DeviceStats DeviceCache::stats() {
  const std::lock_guard lock(mutex_);
  for (const auto& [id, cache] : caches_) join_recent(*cache);
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

void DeviceCache::set_fraction(double fraction) {
  const size_t total = device_memory(device_).second;
  const std::lock_guard lock(mutex_);
  fraction_ = fraction;
  allowed_ = fraction < 1 ? static_cast<size_t>(fraction * static_cast<double>(total)) : SIZE_MAX;
}

double DeviceCache::fraction() const {
  const std::lock_guard lock(mutex_);
  return fraction_;
}

}  // namespace torch_npu
