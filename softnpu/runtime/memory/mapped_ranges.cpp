#include "runtime/memory/mapped_ranges.h"

#include <iterator>
#include <mutex>

namespace softnpu {

MappedRanges& MappedRanges::instance() {
  static MappedRanges* const leaked = new MappedRanges;
  return *leaked;
}

void MappedRanges::add(std::byte* begin, size_t bytes, const void* reservation) {
  const std::unique_lock lock(mutex_);
  is_used_.store(true, std::memory_order_release);
  auto range = ranges_.emplace(begin, Range{bytes, reservation}).first;
  const auto join_next = [&](auto first) {
    const auto next = std::next(first);
    if (next == ranges_.end() || next->second.reservation != reservation || first->first + first->second.bytes != next->first)
      return;
    first->second.bytes += next->second.bytes;
    ranges_.erase(next);
  };
  join_next(range);
  if (range != ranges_.begin() && std::prev(range)->second.reservation == reservation) join_next(std::prev(range));
}

void MappedRanges::remove(std::byte* begin, size_t bytes) {
  const std::unique_lock lock(mutex_);
  auto range = ranges_.upper_bound(begin);
  if (range == ranges_.begin()) return;
  --range;
  std::byte* const end = range->first + range->second.bytes;
  const void* const reservation = range->second.reservation;
  if (begin + bytes > end) return;
  range->second.bytes = static_cast<size_t>(begin - range->first);
  if (range->second.bytes == 0) ranges_.erase(range);
  if (begin + bytes < end) ranges_.emplace(begin + bytes, Range{static_cast<size_t>(end - begin) - bytes, reservation});
  Heap::count_free();
}

std::optional<Allocation> MappedRanges::find(const void* pointer) const {
  const std::shared_lock lock(mutex_);
  return look_up(pointer);
}

std::optional<Allocation> MappedRanges::find_at_once(const void* pointer) {
  if (!is_used_.load(std::memory_order_acquire)) return std::nullopt;
  const MappedRanges& ranges = instance();
  const std::shared_lock lock(ranges.mutex_, std::try_to_lock);
  return lock.owns_lock() ? ranges.look_up(pointer) : std::nullopt;
}

std::optional<Allocation> MappedRanges::look_up(const void* pointer) const {
  auto* const address = static_cast<std::byte*>(const_cast<void*>(pointer));
  auto range = ranges_.upper_bound(address);
  if (range == ranges_.begin()) return std::nullopt;
  --range;
  if (address >= range->first + range->second.bytes) return std::nullopt;
  return Allocation{range->first, range->second.bytes};
}

}  // namespace softnpu
