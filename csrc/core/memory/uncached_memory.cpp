#include "core/memory/uncached_memory.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>

#include "acl/softnpu.h"
#include "acl/symbol.h"
#include "base/options.h"
#include "core/device/late_errors.h"
#include "core/memory/allocation_sizes.h"
#include "core/memory/allocator_settings.h"
#include "core/memory/memory_stats.h"
#include "core/memory/out_of_memory.h"
#include "core/stream/known_streams.h"
#include "core/stream/open_captures.h"
#include "core/stream/wait.h"

namespace torch_npu {

namespace {

using c10::CachingAllocator::StatArray;

constinit std::array<std::atomic<UncachedMemory*>, kMaxDevices> memories{};

void increase(StatArray& stat, size_t bytes, size_t amount) {
  stat[0].increase(amount);
  stat[bytes <= kMostSmall ? 1 : 2].increase(amount);
}

void decrease(StatArray& stat, size_t bytes, size_t amount) {
  stat[0].decrease(amount);
  stat[bytes <= kMostSmall ? 1 : 2].decrease(amount);
}

// A stream that its owner has destroyed has no work left.
bool has_work(NPUStream stream) { return !is_destroyed(stream) && !stream.query(); }

bool device_checks_memory() {
  return acl::find_symbol("softnpuControl") != nullptr && acl::softnpu_control("memory-checks") != "none";
}

void collect_all() {
  for (std::atomic<UncachedMemory*>& slot : memories) {
    if (UncachedMemory* memory = slot.load(std::memory_order_acquire)) memory->collect();
  }
  bind_device();  // queries of streams on other devices may have bound another one
}

}  // namespace

bool UncachedMemory::is_in_use() {
  static const bool in_use = options().no_caching || device_checks_memory();
  return in_use;
}

// Never destroyed, because memory is freed until the process ends.
UncachedMemory& UncachedMemory::of(c10::DeviceIndex device) {
  std::atomic<UncachedMemory*>& slot = memories[static_cast<size_t>(device)];
  if (UncachedMemory* memory = slot.load(std::memory_order_acquire)) return *memory;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (UncachedMemory* memory = slot.load(std::memory_order_acquire)) return *memory;
  read_allocator_environment();
  auto* memory = new UncachedMemory(device);
  if (initial_memory_fraction() < 1) memory->set_fraction(initial_memory_fraction());
  slot.store(memory, std::memory_order_release);
  set_after_synchronize(collect_all);
  return *memory;
}

UncachedMemory* UncachedMemory::find(c10::DeviceIndex device) {
  return memories[static_cast<size_t>(device)].load(std::memory_order_acquire);
}

UncachedMemory::Allocation* UncachedMemory::allocate(size_t bytes, c10::StreamId id) {
  raise_late_errors();
  std::unique_lock lock(mutex_);
  if (bytes >= kMostBytes) out_of_memory(lock, bytes);
  collect_reached(/*wait=*/false);
  void* address = ask_device(bytes);
  if (address == nullptr) {
    ++stats_.num_alloc_retries;
    collect_reached(/*wait=*/true);
    address = ask_device(bytes);
  }
  if (address == nullptr) out_of_memory(lock, bytes);
  for (StatArray* count : {&stats_.allocation, &stats_.segment, &stats_.active}) increase(*count, bytes, 1);
  for (StatArray* sum : {&stats_.allocated_bytes, &stats_.reserved_bytes, &stats_.active_bytes, &stats_.requested_bytes}) {
    increase(*sum, bytes, bytes);
  }
  return new Allocation{address, bytes, NPUStream(device_, id)};
}

void UncachedMemory::free(Allocation* allocation) noexcept {
  const std::lock_guard lock(mutex_);
  decrease(stats_.allocation, allocation->size, 1);
  decrease(stats_.allocated_bytes, allocation->size, allocation->size);
  ++allocation->pending_events;  // until record_freed() has recorded its events
  freed_.push_back(allocation);
  try {
    collect_reached(/*wait=*/false);
  } catch (const std::exception&) {  // at exit a query may fail; the memory is kept, because the device may still use it
  }
}

// Records events for freed memory on the streams that may use it: the streams of other devices that recordStream() named, and all
// streams of this device, because events may order them behind the stream of the memory. During a capture events can be neither
// recorded nor queried, so this is left to a later call.
void UncachedMemory::record_freed() {
  while (!freed_.empty() && !captures_exist()) {
    Allocation* const allocation = freed_.back();
    for (const NPUStream stream : known_streams(device_)) record(stream, allocation);
    for (const NPUStream stream : allocation->users) {
      if (stream.device_index() != device_) record(stream, allocation);
    }
    freed_.pop_back();
    if (--allocation->pending_events == 0) give_back(allocation);
  }
}

void UncachedMemory::record_stream(Allocation* allocation, NPUStream stream) {
  if (stream == allocation->stream) return;
  const std::lock_guard lock(mutex_);
  std::vector<NPUStream>& users = allocation->users;
  if (std::find(users.begin(), users.end(), stream) == users.end()) users.push_back(stream);
}

void UncachedMemory::release_cached() {
  const BoundDevice bound(device_);
  const std::lock_guard lock(mutex_);
  collect_reached(/*wait=*/true);
}

void UncachedMemory::collect() noexcept {
  const std::lock_guard lock(mutex_);
  try {
    collect_reached(/*wait=*/false);
  } catch (const std::exception&) {  // a query failed; the next call tries again
  }
}

// Null if the limit or the device has no more memory; throws on any other failure.
void* UncachedMemory::ask_device(size_t bytes) {
  const auto reserved = static_cast<size_t>(stats_.reserved_bytes[0].current);
  if (bytes > allowed_ || reserved > allowed_ - bytes) return nullptr;
  void* address = nullptr;
  bind_device();  // queries of streams on other devices may have bound another one
  const aclError code = ACL_FN(aclrtMalloc)(&address, bytes, ACL_MEM_MALLOC_HUGE_FIRST);
  if (acl::is_out_of_memory(code)) {
    ACL_FN(aclGetRecentErrMsg)();  // clears the message: it must not appear in a later error
    return nullptr;
  }
  acl::check(code, "aclrtMalloc");
  ++stats_.num_device_alloc;
  return address;
}

// Records an event behind the present work of `stream`, if it has any.
void UncachedMemory::record(NPUStream stream, Allocation* allocation) {
  if (!has_work(stream)) return;
  PooledEvent* event = take_event(stream.device_index(), Timing::kOff);
  try {
    record_event(*event, stream);
  } catch (...) {
    return_event(event);
    throw;
  }
  pending_.push_back({event, allocation});
  ++allocation->pending_events;
}

void UncachedMemory::collect_reached(bool wait) {
  record_freed();
  if (captures_exist()) return;
  const UninterruptedWaits scope;  // an interrupt runs code of the user, which may need the lock
  if (wait && !pending_.empty()) ++stats_.num_sync_all_streams;
  for (size_t i = 0; i < pending_.size();) {
    const Pending pending = pending_[i];
    if (wait) wait_for_event(*pending.event);
    if (!wait && !event_reached(*pending.event)) {
      ++i;
      continue;
    }
    pending_[i] = pending_.back();
    pending_.pop_back();
    return_event(pending.event);
    if (--pending.allocation->pending_events == 0) give_back(pending.allocation);
  }
}

void UncachedMemory::give_back(Allocation* allocation) noexcept {
  const size_t bytes = allocation->size;
  const aclError code = ACL_FN(aclrtFree)(allocation->address);
  if (code != ACL_SUCCESS && code != ACL_ERROR_UNINITIALIZE) add_late_error(acl::describe(code, "aclrtFree"));
  ++stats_.num_device_free;
  decrease(stats_.segment, bytes, 1);
  decrease(stats_.active, bytes, 1);
  for (StatArray* sum : {&stats_.reserved_bytes, &stats_.active_bytes, &stats_.requested_bytes}) decrease(*sum, bytes, bytes);
  delete allocation;
}

void UncachedMemory::out_of_memory(std::unique_lock<std::mutex>& lock, size_t bytes) {
  ++stats_.num_ooms;
  const auto [free, total] = device_memory(device_);
  const OutOfMemory event{.device = device_,
                          .requested = bytes,
                          .total = total,
                          .free = free,
                          .allowed = allowed_,
                          .allocated = static_cast<size_t>(stats_.allocated_bytes[0].current),
                          .active = static_cast<size_t>(stats_.active_bytes[0].current),
                          .reserved = static_cast<size_t>(stats_.reserved_bytes[0].current)};
  lock.unlock();
  throw_out_of_memory(event);
}

c10::CachingDeviceAllocator::DeviceStats UncachedMemory::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

void UncachedMemory::reset_accumulated_stats() {
  const std::lock_guard lock(mutex_);
  reset_sums(stats_);
}

void UncachedMemory::reset_peak_stats() {
  const std::lock_guard lock(mutex_);
  reset_peaks(stats_);
}

std::pair<size_t, size_t> UncachedMemory::usage() const {
  const std::lock_guard lock(mutex_);
  return {static_cast<size_t>(stats_.allocated_bytes[0].current), static_cast<size_t>(stats_.reserved_bytes[0].current)};
}

void UncachedMemory::set_fraction(double fraction) {
  const size_t total = device_memory(device_).second;
  const std::lock_guard lock(mutex_);
  fraction_ = fraction;
  allowed_ = fraction < 1 ? static_cast<size_t>(fraction * static_cast<double>(total)) : SIZE_MAX;
}

double UncachedMemory::fraction() const {
  const std::lock_guard lock(mutex_);
  return fraction_;
}

}  // namespace torch_npu
