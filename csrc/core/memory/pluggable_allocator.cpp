#include "core/memory/pluggable_allocator.h"

#include <atomic>

#include "core/memory/allocator.h"
#include "core/memory/out_of_memory.h"

namespace torch_npu {
namespace {

constinit std::atomic<const AllocatorFunctions*> plugged{nullptr};

struct Allocation {
  const AllocatorFunctions& functions;
  void* address;
  size_t size;
  NPUStream stream;
};

void free_allocation(void* context) {
  if (is_in_bad_fork()) return;
  const std::unique_ptr<Allocation> allocation(static_cast<Allocation*>(context));
  const c10::DeviceIndex device = allocation->stream.device_index();
  try {
    const BoundDevice bound(device);
    allocation->functions.free(allocation->address, allocation->size, device, allocation->stream.stream());
  } catch (const std::exception&) {  // the device may be gone at exit
  }
}

}  // namespace

void use_allocator(const AllocatorFunctions* functions) {
  TORCH_CHECK(!has_allocated(),
              "the allocator of npu was used already and cannot be changed any more; call "
              "change_current_allocator() before the first tensor is made on npu");
  const AllocatorFunctions* none = nullptr;
  TORCH_CHECK(plugged.compare_exchange_strong(none, functions), "the allocator of npu was changed already, which works once");
}

const AllocatorFunctions* plugged_allocator() { return plugged.load(std::memory_order_acquire); }

at::DataPtr allocate_plugged(const AllocatorFunctions& functions, size_t bytes, c10::DeviceIndex device, c10::StreamId id) {
  const NPUStream stream(device, id);
  void* address = functions.allocate(bytes, device, stream.stream());
  if (address == nullptr) {
    const auto [free, total] = device_memory(device);
    throw_out_of_memory({.device = device,
                         .requested = bytes,
                         .total = total,
                         .free = free,
                         .reason = "the function given to change_current_allocator() returned a null pointer"});
  }
  return {address, new Allocation{functions, address, bytes, stream}, &free_allocation, npu_device(device)};
}

}  // namespace torch_npu
