#include "core/memory/memory_pool.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include "core/device/late_errors.h"
#include "core/device/process_end.h"
#include "core/memory/allocator.h"
#include "core/memory/device_cache.h"
#include "core/stream/wait.h"

namespace torch_npu {
namespace {

struct Use {
  c10::DeviceIndex device;
  c10::MempoolId_t pool;

  bool operator==(const Use&) const = default;
};

thread_local std::vector<Use> uses;  // the innermost last

// Drops a reference. The last drop gives the memory back to the device. If that fails, emptyCache() and allocations that need
// room try again.
void release(c10::DeviceIndex device, c10::MempoolId_t id) noexcept {
  if (is_in_bad_fork() || process_ends()) return;
  const InterpreterUnlocked unlocked;  // the work that is waited for may need Python
  try {
    device_cache(device).release_pool(id);
  } catch (...) {
    raise_later(std::current_exception());
  }
}

}  // namespace

MemoryPool::MemoryPool(const AllocatorFunctions* source) : id_(new_pool_id()), source_(source), device_(current_device()) {
  device_cache(device_).retain_pool(id_, source_);
}

MemoryPool::~MemoryPool() { release(device_, id_); }

size_t MemoryPool::use_count() const { return device_cache(device_).pool_use_count(id_); }

UsePool::UsePool(const MemoryPool& pool, c10::DeviceIndex device) : UsePool(pool.id(), pool.source(), device) {}

UsePool::UsePool(c10::MempoolId_t pool, const AllocatorFunctions* source, c10::DeviceIndex device) : id_(pool), device_(device) {
  device_cache(device_).retain_pool(id_, source);
  uses.push_back({device_, id_});
  ++detail::allocation_watchers;
}

UsePool::~UsePool() {
  --detail::allocation_watchers;
  const auto use = std::find(uses.rbegin(), uses.rend(), Use{device_, id_});
  if (use != uses.rend()) uses.erase(std::next(use).base());
  release(device_, id_);
}

c10::MempoolId_t new_pool_id() {
  static std::atomic<c10::CaptureId_t> last{0};
  return {0, ++last};
}

c10::MempoolId_t current_pool(c10::DeviceIndex device) {
  const auto use = std::find_if(uses.rbegin(), uses.rend(), [&](const Use& one) { return one.device == device; });
  return use != uses.rend() ? use->pool : c10::MempoolId_t{0, 0};
}

}  // namespace torch_npu
