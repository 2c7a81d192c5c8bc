// Private pools of device memory. While a thread uses a pool, its allocations come from the pool's own segments.
//
//   MemoryPool pool;                                // or MemoryPool pool(&functions): these functions give the segments
//   {
//     const UsePool use(pool, /*device=*/0);        // this thread, this device
//     at::DataPtr memory = allocate_memory(1024);
//   }
//
// Freed memory goes back to its pool, and only users of the pool get it again. emptyCache() does not touch pools in use. When the
// pool is destroyed, its free segments go back to the device, after all work. The other segments go back in a later emptyCache(),
// after their memory is freed. So do segments for which the wait failed or was interrupted: the destructors do not throw
// (late_errors.h).
//
// Several threads may use a pool. Uses may be nested: the innermost one decides. If memory is not cached, a pool has no effect.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/macros/Export.h>

#include "core/memory/pluggable_allocator.h"

namespace torch_npu {

class C10_EXPORT MemoryPool {
 public:
  // A pool of the current device; it can be used on other devices too. `source` must stay valid until the process ends.
  explicit MemoryPool(const AllocatorFunctions* source = nullptr);
  ~MemoryPool();
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  c10::MempoolId_t id() const { return id_; }
  const AllocatorFunctions* source() const { return source_; }
  // 1 for this object, and 1 for each use.
  size_t use_count() const;

 private:
  const c10::MempoolId_t id_;
  const AllocatorFunctions* const source_;
  const c10::DeviceIndex device_;
};

class C10_EXPORT UsePool {
 public:
  UsePool(const MemoryPool& pool, c10::DeviceIndex device);
  // For a pool of a graph.
  UsePool(c10::MempoolId_t pool, c10::DeviceIndex device) : UsePool(pool, nullptr, device) {}
  // Runs on the thread that made the object.
  ~UsePool();
  UsePool(const UsePool&) = delete;
  UsePool& operator=(const UsePool&) = delete;

 private:
  UsePool(c10::MempoolId_t pool, const AllocatorFunctions* source, c10::DeviceIndex device);

  const c10::MempoolId_t id_;
  const c10::DeviceIndex device_;
};

// The pool that the calling thread uses on `device`; {0, 0} if it uses none.
c10::MempoolId_t current_pool(c10::DeviceIndex device);

// An ID that no pool has.
C10_EXPORT c10::MempoolId_t new_pool_id();

}  // namespace torch_npu
