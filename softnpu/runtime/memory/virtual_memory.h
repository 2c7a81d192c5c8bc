// Addresses and memory taken apart: a client reserves addresses of a device, takes physical memory, and maps the one to the
// other.
//
//   Result<void*> range = VirtualMemory::reserve(device, 1 << 30);
//   Result<void*> memory = VirtualMemory::take(device, 2 << 20);
//   VirtualMemory::map(range.value(), 2 << 20, memory.value());      // from now on kernels and copies may use those bytes
//   VirtualMemory::unmap(range.value());
//   VirtualMemory::give(memory.value());
//   VirtualMemory::release(range.value());
//
// Physical memory is a block of the device's heap, counted as such, and seen a second time where it is mapped. Neighbouring
// pieces of one reservation are one range for whoever checks (mapped_ranges.h). Nothing waits for streams.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <optional>

#include "runtime/base/status.h"
#include "runtime/memory/heap.h"

namespace softnpu {

// Thread-safe. Devices are as the host counts; sizes and addresses are multiples of kGranularity.
class VirtualMemory {
 public:
  static constexpr size_t kGranularity = size_t{64} << 10;

  static Result<void*> reserve(int device, size_t bytes);
  // Only when nothing is mapped there.
  static Status release(void* address);

  // The result stands for the memory and is no address. ACL_ERROR_RT_MEMORY_ALLOCATION as Heap::allocate.
  static Result<void*> take(int device, Heap& heap, size_t bytes);
  // Only when it is mapped nowhere.
  static Status give(void* handle);

  // All of the memory, once, at free addresses of one reservation of the same device.
  static Status map(void* address, size_t bytes, void* handle);
  // What one map() did.
  static Status unmap(void* address);

  // Where the memory that is mapped around `pointer` lies in the file of its heap, up to its end.
  struct Piece {
    off_t offset;
    size_t bytes;
  };
  static std::optional<Piece> piece_at(const void* pointer);

  // Ends everything on `device`, whose heap frees the memory itself.
  static void forget_device(int device);
};

}  // namespace softnpu
