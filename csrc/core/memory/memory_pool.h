// Private pools of device memory: what a thread allocates while it uses a pool comes from that pool's own segments.
//
//   MemoryPool pool;                                // or MemoryPool pool(&functions), for segments from elsewhere
//   {
//     const UsePool use(pool, /*device=*/0);        // this thread, this device
//     at::DataPtr memory = allocate_memory(1024);
//   }
//
// Memory goes back to its pool when freed, and from there only to those who use that pool. emptyCache() leaves pools alone. When
// the pool goes, free segments go back to the device, after all work, and the others after the last of their memory is freed, in
// emptyCache(). So do those whose wait failed or was interrupted: destructors here do not throw (late_errors.h).
//
// A pool may be used by several threads, and pools may be nested: the innermost counts. Where memory is not cached, a pool has no
// effect.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/macros/Export.h>

#include "core/memory/pluggable_allocator.h"

namespace torch_npu {

class C10_EXPORT MemoryPool {
 public:
  // Of the current device; used on another one, it has segments there too. `source` must stay until the process ends.
  explicit MemoryPool(const AllocatorFunctions* source = nullptr);
  ~MemoryPool();
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  c10::MempoolId_t id() const { return id_; }
  const AllocatorFunctions* source() const { return source_; }
  // This object, and each use.
  size_t use_count() const;

 private:
  const c10::MempoolId_t id_;
  const AllocatorFunctions* const source_;
  const c10::DeviceIndex device_;
};

class C10_EXPORT UsePool {
 public:
  UsePool(const MemoryPool& pool, c10::DeviceIndex device);
  // Of a pool that a graph uses.
  UsePool(c10::MempoolId_t pool, c10::DeviceIndex device) : UsePool(pool, nullptr, device) {}
  // On the thread that made it.
  ~UsePool();
  UsePool(const UsePool&) = delete;
  UsePool& operator=(const UsePool&) = delete;

 private:
  UsePool(c10::MempoolId_t pool, const AllocatorFunctions* source, c10::DeviceIndex device);

  const c10::MempoolId_t id_;
  const c10::DeviceIndex device_;
};

// The one that the calling thread uses on `device`; {0, 0} for none.
c10::MempoolId_t current_pool(c10::DeviceIndex device);

// Of no pool yet.
C10_EXPORT c10::MempoolId_t new_pool_id();

}  // namespace torch_npu
