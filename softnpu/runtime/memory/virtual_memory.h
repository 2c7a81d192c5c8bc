// Virtual memory: a client reserves addresses of a device, allocates physical memory, and maps the memory at the addresses.
//
//   Result<void*> range = VirtualMemory::reserve(device, 1 << 30);
//   Result<void*> memory = VirtualMemory::take(device, heap, 2 << 20);
//   VirtualMemory::map(range.value(), 2 << 20, memory.value());      // now kernels and copies may use them
//   VirtualMemory::unmap(range.value());
//   VirtualMemory::give(memory.value());
//   VirtualMemory::release(range.value());
//
// Physical memory is a block of the device's heap. Mapping it adds a second address. Adjacent mappings of one reservation are one
// range for range checks (mapped_ranges.h). No function waits for streams.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <optional>

#include "runtime/base/status.h"
#include "runtime/memory/heap.h"

namespace softnpu {

// Thread-safe. Devices have the numbers of the host. Sizes and addresses are multiples of kGranularity.
class VirtualMemory {
 public:
  static constexpr size_t kGranularity = size_t{64} << 10;

  static Result<void*> reserve(int device, size_t bytes);
  // Fails while memory is mapped in the range.
  static Status release(void* address);

  // Allocates memory and returns a handle, which is not an address. Fails as Heap::allocate does.
  static Result<void*> take(int device, Heap& heap, size_t bytes);
  // Frees the memory. Fails while it is mapped.
  static Status give(void* handle);

  // Maps all of the memory, at unused addresses of one reservation of the same device. Memory has at most one mapping.
  static Status map(void* address, size_t bytes, void* handle);
  // Ends the mapping that begins at `address`.
  static Status unmap(void* address);

  // The place in its heap's file of the memory that is mapped at `pointer`, up to the end of that mapping.
  struct Piece {
    off_t offset;
    size_t bytes;
  };
  static std::optional<Piece> piece_at(const void* pointer);

  // Ends all mappings and reservations of `device`. The heap frees the memory.
  static void forget_device(int device);
};

}  // namespace softnpu
