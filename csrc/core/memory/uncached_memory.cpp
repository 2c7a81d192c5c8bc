#include "core/memory/uncached_memory.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>

#include "acl/softnpu.h"
#include "acl/symbol.h"
#include "base/options.h"
#include "core/graph/graph.h"
#include "core/late_errors.h"
#include "core/memory/allocator_settings.h"
#include "core/memory/memory_stats.h"
#include "core/memory/out_of_memory.h"
#include "core/stream/known_streams.h"
#include "core/stream/wait.h"

namespace torch_npu {

constinit std::atomic<bool> detail::memory_is_uncached{false};

namespace {

using c10::CachingAllocator::StatArray;

constexpr size_t kMostSmall = 1 << 20;
constexpr size_t kMostBytes = size_t{1} << 60;

constinit std::array<std::atomic<UncachedMemory*>, kMaxDevices> memories{};

void increase(StatArray& stat, size_t bytes, size_t amount) {
  stat[0].increase(amount);
  stat[bytes <= kMostSmall ? 1 : 2].increase(amount);
}

void decrease(StatArray& stat, size_t bytes, size_t amount) {
  stat[0].decrease(amount);
  stat[bytes <= kMostSmall ? 1 : 2].decrease(amount);
}

// One that its owner has destroyed has none left.
bool has_work(NPUStream stream) { return !is_destroyed(stream) && !stream.query(); }

bool device_checks_memory() {
  return acl::find_symbol("softnpuControl") != nullptr && acl::softnpu_control("memory-checks") != "none";
}

}  // namespace

bool UncachedMemory::is_in_use() {
  static const bool in_use = options().no_caching || device_checks_memory();
  return in_use;
}

// Leaked, as memory is freed until the end of the process.
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
  detail::memory_is_uncached.store(true, std::memory_order_relaxed);
  return *memory;
}

UncachedMemory* UncachedMemory::find(c10::DeviceIndex device) {
  return memories[static_cast<size_t>(device)].load(std::memory_order_acquire);
}

UncachedMemory::Piece* UncachedMemory::allocate(size_t bytes, c10::StreamId id) {
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
  return new Piece{address, bytes, NPUStream(device_, id)};
}

void UncachedMemory::free(Piece* piece) noexcept {
  const std::lock_guard lock(mutex_);
  decrease(stats_.allocation, piece->size, 1);
  decrease(stats_.allocated_bytes, piece->size, piece->size);
  ++piece->pending_events;  // until its streams are marked
  freed_.push_back(piece);
  try {
    collect_reached(/*wait=*/false);
  } catch (const std::exception&) {  // at exit: a device that cannot be asked may still be using the memory
  }
}

// Makes what was freed wait for the streams that may use it: those that recordStream() named, on other devices too, and all of
// this device, as events may put them in order with that of the memory. Streams of a capture must be neither marked nor asked.
void UncachedMemory::mark_freed() {
  while (!freed_.empty() && !captures_exist()) {
    Piece* const piece = freed_.back();
    for (const NPUStream stream : known_streams(device_)) wait_for(stream, piece);
    for (const NPUStream stream : piece->users) {
      if (stream.device_index() != device_) wait_for(stream, piece);
    }
    freed_.pop_back();
    if (--piece->pending_events == 0) give_back(piece);
  }
}

void UncachedMemory::record_stream(Piece* piece, NPUStream stream) {
  if (stream == piece->stream) return;
  const std::lock_guard lock(mutex_);
  if (std::find(piece->users.begin(), piece->users.end(), stream) == piece->users.end()) piece->users.push_back(stream);
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
  } catch (const std::exception&) {  // what cannot be asked now is asked again
  }
}

// Null if the device or the limit has no more; throws on any other failure.
void* UncachedMemory::ask_device(size_t bytes) {
  const auto reserved = static_cast<size_t>(stats_.reserved_bytes[0].current);
  if (bytes > allowed_ || reserved > allowed_ - bytes) return nullptr;
  void* address = nullptr;
  bind_device();  // streams of other devices may have been asked
  const aclError code = ACL_FN(aclrtMalloc)(&address, bytes, ACL_MEM_MALLOC_HUGE_FIRST);
  if (acl::is_out_of_memory(code)) {
    ACL_FN(aclGetRecentErrMsg)();  // not the next failure's
    return nullptr;
  }
  acl::check(code, "aclrtMalloc");
  ++stats_.num_device_alloc;
  return address;
}

// Makes `piece` wait for what `stream` holds now.
void UncachedMemory::wait_for(NPUStream stream, Piece* piece) {
  if (!has_work(stream)) return;
  PooledEvent* event = take_event(stream.device_index(), Timing::kOff);
  try {
    record_event(*event, stream);
  } catch (...) {
    return_event(event);
    throw;
  }
  pending_.push_back({event, piece});
  ++piece->pending_events;
}

void UncachedMemory::collect_reached(bool wait) {
  mark_freed();
  if (captures_exist()) return;
  const UninterruptedWaits scope;  // what the user does then may want the lock
  if (wait && !pending_.empty()) ++stats_.num_sync_all_streams;
  for (size_t i = 0; i < pending_.size();) {
    const Pending mark = pending_[i];
    if (wait) wait_for_event(*mark.event);
    if (!wait && !event_reached(*mark.event)) {
      ++i;
      continue;
    }
    pending_[i] = pending_.back();
    pending_.pop_back();
    return_event(mark.event);
    if (--mark.piece->pending_events == 0) give_back(mark.piece);
  }
}

void UncachedMemory::give_back(Piece* piece) noexcept {
  const size_t bytes = piece->size;
  const aclError code = ACL_FN(aclrtFree)(piece->address);
  if (code != ACL_SUCCESS && code != ACL_ERROR_UNINITIALIZE) add_late_error(acl::describe(code, "aclrtFree"));
  ++stats_.num_device_free;
  decrease(stats_.segment, bytes, 1);
  decrease(stats_.active, bytes, 1);
  for (StatArray* sum : {&stats_.reserved_bytes, &stats_.active_bytes, &stats_.requested_bytes}) decrease(*sum, bytes, bytes);
  delete piece;
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

void detail::settle_uncached_memory() {
  for (std::atomic<UncachedMemory*>& slot : memories) {
    if (UncachedMemory* memory = slot.load(std::memory_order_acquire)) memory->collect();
  }
  bind_device();  // streams of other devices may have been asked
}

}  // namespace torch_npu
