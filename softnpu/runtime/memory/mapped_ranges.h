// Device memory outside of the heaps that kernels may use now: what other processes share, and what the client mapped.
//
//   MappedRanges::instance().add(begin, bytes, reservation);
//   MappedRanges::instance().find(begin + 1);     // begin, bytes
//   MappedRanges::instance().remove(begin, bytes);
//
// Heap asks here about addresses that are not its own, so that every check of a range knows of them. Neighbours of one
// reservation are one range: an array may lie across them.
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
  // A part of what was added. Counts as a free: whoever keeps ranges forgets them.
  void remove(std::byte* begin, size_t bytes);

  // The range that contains `pointer`.
  std::optional<Allocation> find(const void* pointer) const;
  // The same for signal handlers: none, too, while another thread changes something. Allocates nothing.
  static std::optional<Allocation> find_at_once(const void* pointer);

 private:
  struct Range {
    size_t bytes;
    const void* reservation;
  };

  std::optional<Allocation> look_up(const void* pointer) const;

  static inline constinit std::atomic<bool> is_used_{false};  // a range was added
  mutable std::shared_mutex mutex_;                           // guards the following
  std::map<std::byte*, Range> ranges_;
};

}  // namespace softnpu
