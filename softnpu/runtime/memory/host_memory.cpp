#include "runtime/memory/host_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <mutex>

#include "runtime/engine/arena.h"

namespace softnpu {
namespace {

constexpr size_t kRegistrationAlignment = 4096;
constexpr size_t kRememberedFrees = 1024;

uintptr_t number(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }
void* pointer_to(uintptr_t address) { return reinterpret_cast<void*>(address); }

size_t mapped_bytes(size_t bytes) {
  static const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

Status wrong(std::string message) { return {ACL_ERROR_RT_PARAM_INVALID, std::move(message)}; }

}  // namespace

HostMemory::~HostMemory() {
  for (const auto& [base, range] : ranges_) {
    if (range.kind == HostMemoryKind::kPinned) munmap(pointer_to(base), mapped_bytes(range.bytes));
  }
}

Result<void*> HostMemory::allocate(size_t bytes) {
  if (bytes == 0) return wrong("an allocation of 0 bytes is asked for");
  const bool possible = bytes <= SIZE_MAX / 2;
  void* block =
      possible ? mmap(nullptr, mapped_bytes(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : MAP_FAILED;
  if (block == MAP_FAILED) {
    return Status(ACL_ERROR_RT_MEMORY_ALLOCATION,
                  text("the host has no ", bytes, " bytes of memory: ", std::strerror(possible ? errno : ENOMEM)));
  }
  std::unique_lock lock(mutex_);
  ranges_.insert_or_assign(number(block), Entry{bytes, HostMemoryKind::kPinned, 0});
  std::erase(freed_, number(block));
  count_.store(ranges_.size(), std::memory_order_release);
  return block;
}

Status HostMemory::free(void* pointer) {
  std::unique_lock lock(mutex_);
  const auto range = ranges_.find(number(pointer));
  if (range == ranges_.end() || range->second.kind != HostMemoryKind::kPinned) return explain(pointer, HostMemoryKind::kPinned);
  const size_t bytes = range->second.bytes;
  ranges_.erase(range);
  count_.store(ranges_.size(), std::memory_order_release);
  if (freed_.size() == kRememberedFrees) freed_.pop_front();
  freed_.push_back(number(pointer));
  // With the lock held: after munmap() another thread's allocate() may get the same address.
  munmap(pointer, mapped_bytes(bytes));
  return {};
}

Result<void*> HostMemory::register_range(void* pointer, size_t bytes, uint32_t flags) {
  const uintptr_t begin = number(pointer);
  if (begin == 0 || begin % kRegistrationAlignment != 0) {
    return wrong(
        text("host memory at ", pointer, " cannot be registered: its base must be a multiple of ", kRegistrationAlignment));
  }
  if (bytes == 0 || bytes > UINTPTR_MAX - begin)
    return wrong(text("a range of ", bytes, " bytes at ", pointer, " cannot be registered"));
  if (Arena::contains(pointer) || Arena::contains(static_cast<std::byte*>(pointer) + bytes - 1)) {
    return wrong(
        text(bytes, " bytes at ", pointer, " are, or reach into, device memory and cannot be registered as host memory"));
  }
  std::unique_lock lock(mutex_);
  if (const auto other = first_overlap(begin, bytes); other != ranges_.end()) {
    return wrong(text(bytes, " bytes at ", pointer, " overlap the ",
                      other->second.kind == HostMemoryKind::kPinned ? "pinned" : "registered", " range of ", other->second.bytes,
                      " bytes at ", pointer_to(other->first)));
  }
  ranges_.emplace(begin, Entry{bytes, HostMemoryKind::kRegistered, flags});
  count_.store(ranges_.size(), std::memory_order_release);
  return pointer;
}

Status HostMemory::unregister(void* pointer) {
  std::unique_lock lock(mutex_);
  const auto range = ranges_.find(number(pointer));
  if (range == ranges_.end() || range->second.kind != HostMemoryKind::kRegistered) {
    return explain(pointer, HostMemoryKind::kRegistered);
  }
  ranges_.erase(range);
  count_.store(ranges_.size(), std::memory_order_release);
  return {};
}

HostRange HostMemory::find(const void* pointer) const {
  if (count_.load(std::memory_order_acquire) == 0) return {};
  std::shared_lock lock(mutex_);
  const auto range = range_around(number(pointer));
  if (range == ranges_.end()) return {};
  return {range->second.kind, static_cast<std::byte*>(pointer_to(range->first)), range->second.bytes};
}

Status HostMemory::check_range(const void* pointer, size_t bytes) const {
  const HostRange range = find(pointer);
  if (range.kind == HostMemoryKind::kPageable) return {};
  const size_t inside = number(pointer) - number(range.base);
  if (bytes <= range.bytes - inside) return {};
  return wrong(text(bytes, " bytes at offset ", inside, " run past the end of the ",
                    range.kind == HostMemoryKind::kPinned ? "pinned" : "registered", " host memory of ", range.bytes,
                    " bytes at ", static_cast<void*>(range.base)));
}

HostMemory::Ranges::const_iterator HostMemory::range_around(uintptr_t address) const {
  const auto next = ranges_.upper_bound(address);
  if (next == ranges_.begin()) return ranges_.end();
  const auto range = std::prev(next);
  return address - range->first < range->second.bytes ? range : ranges_.end();
}

HostMemory::Ranges::const_iterator HostMemory::first_overlap(uintptr_t begin, size_t bytes) const {
  if (const auto around = range_around(begin); around != ranges_.end()) return around;
  const auto next = ranges_.lower_bound(begin);
  return next != ranges_.end() && next->first - begin < bytes ? next : ranges_.end();
}

Status HostMemory::explain(const void* pointer, HostMemoryKind expected) const {
  const bool pinned = expected == HostMemoryKind::kPinned;
  const auto range = range_around(number(pointer));
  if (range == ranges_.end()) {
    if (pinned && std::find(freed_.begin(), freed_.end(), number(pointer)) != freed_.end()) {
      return wrong(text("double free: ", pointer, " was freed already"));
    }
    return wrong(text(pointer, pinned ? " was never allocated as pinned host memory" : " is not registered host memory"));
  }
  if (range->second.kind != expected) {
    return wrong(text(pointer, pinned ? " is registered host memory: unregister it" : " is pinned host memory: free it"));
  }
  return wrong(text(pointer, " is not the base of the ", pinned ? "pinned" : "registered", " range of ", range->second.bytes,
                    " bytes at ", pointer_to(range->first)));
}

HostMemory& host_memory() {
  static auto* instance = new HostMemory;
  return *instance;
}

}  // namespace softnpu
