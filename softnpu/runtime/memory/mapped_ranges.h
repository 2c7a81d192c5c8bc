// Mapped device memory outside the heaps: memory imported from other processes, and memory that the client mapped.
//
//   MappedRanges::instance().add(begin, bytes, reservation);
//   MappedRanges::instance().find(begin + 1);     // begin, bytes
//   MappedRanges::instance().remove(begin, bytes);
//
// Heap looks up addresses outside its own range here, so that every range check covers them. Adjacent ranges of one reservation
// are merged, because an array may extend over several of them.
#pragma once

#include <atomic>
#include <map>
#include <optional>
#include <shared_mutex>

#include "runtime/memory/heap.h"

namespace softnpu {

// Thread-safe.
class MappedRanges {
 public:
  static MappedRanges& instance();

  void add(std::byte* begin, size_t bytes, const void* reservation);
  // Removes a range or a part of one. Increments Heap::frees(), so that cached allocations become invalid.
  void remove(std::byte* begin, size_t bytes);

  // The range that contains `pointer`.
  std::optional<Allocation> find(const void* pointer) const;
  // The same for signal handlers: allocates nothing, and finds nothing while another thread changes a range.
  static std::optional<Allocation> find_at_once(const void* pointer);

 private:
  struct Range {
    size_t bytes;
    const void* reservation;
  };

  std::optional<Allocation> look_up(const void* pointer) const;

  static inline constinit std::atomic<bool> is_used_{false};  // whether a range was ever added
  mutable std::shared_mutex mutex_;                           // guards the following
  std::map<std::byte*, Range> ranges_;
};

}  // namespace softnpu
