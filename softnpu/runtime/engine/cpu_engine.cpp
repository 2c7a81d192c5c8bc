#include "runtime/engine/cpu_engine.h"

#include <atomic>
#include <cstdint>
#include <cstring>

#include "runtime/engine/arena.h"

namespace softnpu {

Result<std::unique_ptr<Engine>> CpuEngine::create(int device_count, size_t capacity) {
  if (Status status = Arena::reserve(device_count, capacity); !status.ok()) return status;
  return std::unique_ptr<Engine>(new CpuEngine);
}

Result<MemorySpan> CpuEngine::open_memory(int device) {
  Result<void*> heap = Arena::open_heap(device);
  if (!heap.ok()) return heap.take_status();
  return MemorySpan{static_cast<std::byte*>(heap.value()), Arena::capacity()};
}

Status CpuEngine::release_pages(void* device_address, size_t bytes) { return Arena::release_pages(device_address, bytes); }

Status CpuEngine::set_access(void* device_address, size_t bytes, bool accessible) {
  return Arena::set_access(device_address, bytes, accessible);
}

void* CpuEngine::alias(const void* device_address) const { return Arena::kernel_address(device_address); }

Result<std::unique_ptr<EngineQueue>> CpuEngine::make_queue(int) { return std::unique_ptr<EngineQueue>(); }

Status CpuEngine::copy(EngineQueue*, void* destination, const void* source, size_t bytes) {
  const auto addresses = reinterpret_cast<uintptr_t>(destination) | reinterpret_cast<uintptr_t>(source);
  if (bytes == sizeof(uint64_t) && addresses % sizeof(uint64_t) == 0) {
    // Atomic, because a stream may wait for this word (aclrtValueWait).
    std::atomic_ref(*static_cast<uint64_t*>(destination)).store(*static_cast<const uint64_t*>(source), std::memory_order_release);
    return {};
  }
  std::memmove(destination, source, bytes);
  return {};
}

Status CpuEngine::fill(EngineQueue*, void* destination, uint8_t value, size_t bytes) {
  std::memset(destination, value, bytes);
  return {};
}

Status CpuEngine::finish(EngineQueue*) { return {}; }

}  // namespace softnpu
