// The engine of a machine without an accelerator. Device memory is the arena; copies and fills run in the calling thread.
#pragma once

#include "runtime/engine/engine.h"

namespace softnpu {

class CpuEngine final : public Engine {
 public:
  // Reserves the address space of all devices. Fails if the host does not give that much.
  static Result<std::unique_ptr<Engine>> create(int device_count, size_t capacity);

  Result<MemorySpan> open_memory(int device) override;
  Status release_pages(void* device_address, size_t bytes) override;
  Status set_access(void* device_address, size_t bytes, bool accessible) override;
  void* alias(const void* device_address) const override;
  Result<std::unique_ptr<EngineQueue>> make_queue(int device) override;
  Status copy(EngineQueue* queue, void* destination, const void* source, size_t bytes) override;
  Status fill(EngineQueue* queue, void* destination, uint8_t value, size_t bytes) override;
  Status finish(EngineQueue* queue) override;

 private:
  CpuEngine() = default;
};

}  // namespace softnpu
