// Being out of device memory: what the error says, and who is told before it is thrown.
//
//   attach_out_of_memory_observer([](const OutOfMemory& event) { ... });   // may take a snapshot; holds no lock of an allocator
//   ...
//   throw_out_of_memory(event);                                            // c10::OutOfMemoryError
//
// Thread-safe. Observers run on the thread that ran out, in the order in which they came; what they throw is thrown instead.
#pragma once

#include <c10/core/Device.h>
#include <c10/macros/Export.h>

#include <functional>
#include <string>

namespace torch_npu {

// Bytes, but for the device and the reason.
struct OutOfMemory {
  c10::DeviceIndex device = 0;
  size_t requested = 0;
  size_t total = 0;
  size_t free = 0;
  size_t allowed = SIZE_MAX;  // SIZE_MAX: no limit but the device's
  size_t allocated = 0;
  size_t active = 0;
  size_t reserved = 0;
  std::string reason{};  // in the words of the device; empty if it was not asked
};

using OutOfMemoryObserver = std::function<void(const OutOfMemory&)>;
C10_EXPORT void attach_out_of_memory_observer(OutOfMemoryObserver observer);

// Whether the error begins with "CUDA out of memory.": programs that were written for CUDA search for these words.
C10_EXPORT void name_cuda_when_out_of_memory(bool name);

[[noreturn]] void throw_out_of_memory(const OutOfMemory& event);

}  // namespace torch_npu
