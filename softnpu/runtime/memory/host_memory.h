// Host memory that devices can use directly: pinned memory, which this file hands out, and memory of the program that it
// registered. All other host memory is pageable and none of our business.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <shared_mutex>

#include "runtime/base/status.h"

namespace softnpu {

enum class HostMemoryKind { kPageable, kPinned, kRegistered };

struct HostRange {
  HostMemoryKind kind = HostMemoryKind::kPageable;
  std::byte* base = nullptr;  // null and 0 for pageable memory
  size_t bytes = 0;
};

// Thread-safe. Every operation is logarithmic in the number of ranges; lookups are free while there are none.
class HostMemory {
 public:
  HostMemory() = default;
  // Unmaps what is still pinned.
  ~HostMemory();
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  // Page-aligned pinned memory that reads as zeros. ACL_ERROR_RT_MEMORY_ALLOCATION when the host refuses,
  // ACL_ERROR_RT_PARAM_INVALID for 0 bytes.
  Result<void*> allocate(size_t bytes);

  // Frees pinned memory at once. ACL_ERROR_RT_PARAM_INVALID, naming the mistake: freed already, inside a block, registered, not
  // ours.
  Status free(void* pointer);

  // Lets devices use memory of the program and returns the address under which they do: the same one. The base must be a multiple
  // of 4 KiB; a range that overlaps a pinned, registered or device range is refused. ACL_ERROR_RT_PARAM_INVALID.
  Result<void*> register_range(void* pointer, size_t bytes, uint32_t flags);

  // Ends a registration; `pointer` is its base. ACL_ERROR_RT_PARAM_INVALID, naming the mistake, otherwise.
  Status unregister(void* pointer);

  // What `pointer` lies in.
  HostRange find(const void* pointer) const;

  // Ok unless the range starts in a pinned or registered range and runs past its end. Pageable memory is not checked.
  Status check_range(const void* pointer, size_t bytes) const;

 private:
  struct Entry {
    size_t bytes = 0;
    HostMemoryKind kind = HostMemoryKind::kPageable;
    uint32_t flags = 0;
  };
  using Ranges = std::map<uintptr_t, Entry>;

  Ranges::const_iterator range_around(uintptr_t address) const;
  Ranges::const_iterator first_overlap(uintptr_t begin, size_t bytes) const;
  Status explain(const void* pointer, HostMemoryKind expected) const;

  mutable std::shared_mutex mutex_;
  Ranges ranges_;
  std::deque<uintptr_t> freed_;  // bases of pinned blocks that were freed lately, to name a double free
  std::atomic<size_t> count_{0};
};

}  // namespace softnpu
