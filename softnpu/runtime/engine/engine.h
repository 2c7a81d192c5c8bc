// The interface that a machine implements to be a device: memory, copies, fills, and queues that can be waited for.
//
// Streams, events, allocation and all checks are above this interface and are the same for all engines. Callers of copy() and
// fill() pass host addresses or results of alias(), and have checked the ranges.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "runtime/base/status.h"

namespace softnpu {

// An engine's state of one stream. The stream owns it and calls finish() before it deletes it.
class EngineQueue {
 public:
  virtual ~EngineQueue() = default;
};

// The addresses of a device's heap: [begin, begin + bytes).
struct MemorySpan {
  std::byte* begin = nullptr;
  size_t bytes = 0;
};

// Thread-safe. Lives as long as the process.
class Engine {
 public:
  virtual ~Engine() = default;

  // Makes the device's heap usable by kernels and returns its addresses. The host supplies memory when it is written. A second
  // call returns the same span.
  virtual Result<MemorySpan> open_memory(int device) = 0;

  // Returns the memory of a page-aligned part of the heap to the host. The part reads as zeros afterwards.
  virtual Status release_pages(void* device_address, size_t bytes) = 0;

  // Allows or forbids kernels to access a page-aligned part of the heap. A forbidden access faults.
  virtual Status set_access(void* device_address, size_t bytes, bool accessible) = 0;

  // The kernel address of `device_address`.
  virtual void* alias(const void* device_address) const = 0;

  // Makes the engine's state of a new stream of `device`; null if the engine has none.
  virtual Result<std::unique_ptr<EngineQueue>> make_queue(int device) = 0;

  // Copies between any two of host and device; the ranges may overlap. With a null `queue` the copy is complete on return.
  // Otherwise it is complete after finish(queue), and copies of one queue run in the order of the calls.
  virtual Status copy(EngineQueue* queue, void* destination, const void* source, size_t bytes) = 0;

  // Sets every byte. Ordered like copy().
  virtual Status fill(EngineQueue* queue, void* destination, uint8_t value, size_t bytes) = 0;

  // Waits for the work of `queue` and returns its failure.
  virtual Status finish(EngineQueue* queue) = 0;
};

// The engine of this process. open_engine() (device/process.h) makes it and sets it once; engine() may be called after that.
bool has_engine();
void set_engine(std::unique_ptr<Engine> engine);
Engine& engine();

}  // namespace softnpu
