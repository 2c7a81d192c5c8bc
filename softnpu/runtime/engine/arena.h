// The address space of all devices of this process, reserved once and kept to the end.
//
//   [ device view: device 0 | device 1 | ... ][ kernel view: device 0 | device 1 | ... ]
//
// A device address lies in the device view, which nobody can read or write: a host that dereferences it faults. Kernels use the
// kernel view, one constant further on. A device's span is its heap and then room, at least as much, for segments mapped later:
// memory of peers and of other processes.
//
// A child of fork() has no kernel view and no file of it: what it touches there faults, what its parent holds is untouched.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "runtime/base/status.h"

namespace softnpu {

// Thread-safe.
class Arena {
 public:
  static constexpr int kMaxDevices = 64;
  static constexpr size_t kMaxCapacity = size_t{1} << 40;

  // Reserves the spans of `device_count` devices with heaps of `capacity` bytes, rounded down to whole 64 KiB. Once per process:
  // again with the same numbers is ok, with others it is refused. ACL_ERROR_RT_RESOURCE_ALLOC_FAIL if the address space is not to
  // be had.
  static Status reserve(int device_count, size_t capacity);

  // Whether `address` is one that a device could hand out. False for everything before reserve().
  static bool contains(const void* address) {
    const size_t total = total_.load(std::memory_order_acquire);
    return reinterpret_cast<uintptr_t>(address) - base_.load(std::memory_order_relaxed) < total;
  }

  // The device whose span holds `address`, which the arena contains.
  static int device_of(const void* address) {
    const uintptr_t offset = reinterpret_cast<uintptr_t>(address) - base_.load(std::memory_order_relaxed);
    return static_cast<int>(offset >> span_shift_.load(std::memory_order_relaxed));
  }

  // Where kernels reach `address`, which the arena contains.
  static void* kernel_address(const void* address) {
    return reinterpret_cast<std::byte*>(reinterpret_cast<uintptr_t>(address)) + total_.load(std::memory_order_relaxed);
  }

  // All device addresses, and how much further on kernels find them. Zeros before reserve().
  struct Range {
    uintptr_t begin = 0;
    uintptr_t end = 0;
    intptr_t kernel_offset = 0;
  };
  static Range device_range() {
    const size_t total = total_.load(std::memory_order_acquire);
    const uintptr_t base = base_.load(std::memory_order_relaxed);
    return {base, base + total, static_cast<intptr_t>(total)};
  }

  // The first device address of that device's heap.
  static void* heap_begin(int device) {
    return reinterpret_cast<void*>(base_.load(std::memory_order_relaxed) +
                                   (static_cast<uintptr_t>(device) << span_shift_.load(std::memory_order_relaxed)));
  }

  static size_t capacity() { return capacity_.load(std::memory_order_relaxed); }

  // Makes the heap of `device` usable, once, and returns its first device address. It is sparse: memory is taken page by page as
  // kernels write.
  static Result<void*> open_heap(int device);

  // The file behind an open heap, for handing parts of it to other processes; -1 while it is not open. Stays the arena's. The
  // heap's first byte is the file's first byte.
  static int heap_file(int device);

  // Returns the memory behind a part of an open heap to the host; it reads as zeros afterwards. Page-aligned.
  static Status release_pages(void* address, size_t bytes);

  // Opens or closes a part of the kernel view of an open heap. Page-aligned.
  static Status set_access(void* address, size_t bytes, bool accessible);

  // Segments are address space in the span of a device, outside of its heap. reserve_segment() finds `bytes`, whole pages, that
  // are nobody's; ACL_ERROR_RT_MEMORY_ALLOCATION when there is no gap that long. release_segment() takes back what it gave, and
  // whatever is mapped there.
  static Result<void*> reserve_segment(int device, size_t bytes);
  static Status release_segment(void* address);

  // Puts [offset, offset + bytes) of `file` at an address inside of a segment, for kernels, or takes such a part away again. All
  // are whole pages. The caller keeps `file` and may close it.
  static Status map_in_segment(void* address, size_t bytes, int file, off_t offset);
  static Status unmap_in_segment(void* address, size_t bytes);

 private:
  // Set by reserve(), total_ last; constant afterwards.
  static inline std::atomic<uintptr_t> base_{0};
  static inline std::atomic<size_t> total_{0};
  static inline std::atomic<unsigned> span_shift_{0};
  static inline std::atomic<size_t> capacity_{0};
};

}  // namespace softnpu
