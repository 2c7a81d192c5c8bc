// What a machine supplies to be a device: memory, copies, fills, and work of its own that can be waited for.
//
// Streams, events, allocation and every check stand above this line and are the same for all engines. Addresses that reach copy()
// and fill() are host addresses or results of alias(), and their ranges have been checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "runtime/base/status.h"

namespace softnpu {

// What an engine keeps per stream. The stream owns it and finishes it before it lets it go.
class EngineQueue {
 public:
  virtual ~EngineQueue() = default;
};

// The addresses that a device's heap hands out: [begin, begin + bytes).
struct MemorySpan {
  std::byte* begin = nullptr;
  size_t bytes = 0;
};

// Thread-safe. Lives as long as the process.
class Engine {
 public:
  virtual ~Engine() = default;

  // Makes the device's heap usable by kernels and says where it lies. Memory is taken only when it is written. Opening again
  // gives the same span.
  virtual Result<MemorySpan> open_memory(int device) = 0;

  // Returns the memory behind a page-aligned part of the heap to the host. Its next reader sees zeros.
  virtual Status release_pages(void* device_address, size_t bytes) = 0;

  // Decides whether kernels may touch a page-aligned part of the heap; if not, a kernel that does faults.
  virtual Status set_access(void* device_address, size_t bytes, bool accessible) = 0;

  // The address under which kernels reach `device_address`.
  virtual void* alias(const void* device_address) const = 0;

  // The engine's part of a new stream of `device`; null if it needs none.
  virtual Result<std::unique_ptr<EngineQueue>> make_queue(int device) = 0;

  // Copies between any two of host and device; the ranges may overlap. Done on return when `queue` is null, otherwise at
  // finish(queue) at the latest and in the order of the calls.
  virtual Status copy(EngineQueue* queue, void* destination, const void* source, size_t bytes) = 0;

  // Sets every byte. Ordered like copy().
  virtual Status fill(EngineQueue* queue, void* destination, uint8_t value, size_t bytes) = 0;

  // Waits for what the engine started on `queue` and still runs; returns its failure.
  virtual Status finish(EngineQueue* queue) = 0;
};

}  // namespace softnpu
