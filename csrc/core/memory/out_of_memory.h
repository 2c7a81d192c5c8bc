// Out-of-memory errors of the device: the message, and the observers that are called before it is thrown.
//
//   attach_out_of_memory_observer([](const OutOfMemory& event) { ... });   // may take a snapshot; holds no lock of an allocator
//   ...
//   throw_out_of_memory(event);                                            // c10::OutOfMemoryError
//
// Thread-safe. Observers run on the thread whose allocation failed, in the order of their attachment. An exception of an observer
// replaces the error.
#pragma once

#include <c10/core/Device.h>
#include <c10/macros/Export.h>

#include <functional>
#include <string>

namespace torch_npu {

// All numbers except the device are bytes.
struct OutOfMemory {
  c10::DeviceIndex device = 0;
  size_t requested = 0;
  size_t total = 0;
  size_t free = 0;
  size_t allowed = SIZE_MAX;  // the limit of the memory fraction; SIZE_MAX: none
  size_t allocated = 0;
  size_t active = 0;
  size_t reserved = 0;
  std::string reason{};  // the device's message; empty if the device was not asked
};

using OutOfMemoryObserver = std::function<void(const OutOfMemory&)>;
C10_EXPORT void attach_out_of_memory_observer(OutOfMemoryObserver observer);

// With true, the message begins with "CUDA out of memory.", which programs written for CUDA search for.
C10_EXPORT void name_cuda_when_out_of_memory(bool name);

[[noreturn]] void throw_out_of_memory(const OutOfMemory& event);

}  // namespace torch_npu
