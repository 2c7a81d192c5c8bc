// Host memory that devices can use directly: pinned memory, which is allocated by this class, and memory that the program
// registered. All other host memory is pageable; this class does not know it.
//
//   Result<void*> block = host_memory().allocate(1000);
//   host_memory().find(block.value()).kind;                // HostMemoryKind::kPinned
//   host_memory().free(block.value());
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

// Thread-safe. Every operation is logarithmic in the number of ranges; lookups take no lock while there are none.
class HostMemory {
 public:
  HostMemory() = default;
  // Unmaps the pinned memory that was not freed.
  ~HostMemory();
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  // Returns page-aligned pinned memory filled with zeros. ACL_ERROR_RT_MEMORY_ALLOCATION if the host refuses,
  // ACL_ERROR_RT_PARAM_INVALID for 0 bytes.
  Result<void*> allocate(size_t bytes);

  // Frees pinned memory at once. ACL_ERROR_RT_PARAM_INVALID, with the mistake, for memory that was freed already, an address
  // inside a block, registered memory, and memory that was not allocated here.
  Status free(void* pointer);

  // Registers memory of the program and returns its address for devices, which is the same. ACL_ERROR_RT_PARAM_INVALID unless
  // the base is a multiple of 4 KiB and the range overlaps no pinned, registered or device memory.
  Result<void*> register_range(void* pointer, size_t bytes, uint32_t flags);

  // Ends a registration. ACL_ERROR_RT_PARAM_INVALID, with the mistake, if `pointer` is not the base of one.
  Status unregister(void* pointer);

  // The range that contains `pointer`.
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
  std::deque<uintptr_t> freed_;  // bases of recently freed pinned blocks, to recognise a double free
  std::atomic<size_t> count_{0};
};

// The host memory of this process. Made at the first call, and never destroyed.
HostMemory& host_memory();

}  // namespace softnpu
