// The address space of all devices of this process. It is reserved once and never released.
//
//   [ device view: device 0 | device 1 | ... ][ kernel view: device 0 | device 1 | ... ]
//
// A device address lies in the device view, which is mapped without access: host code that dereferences it faults. Kernels use
// the kernel view, at a constant offset. The span of a device is its heap, followed by at least as much room for segments: memory
// of other processes and memory that the client maps.
//
// A child of fork() has neither the kernel view nor its files. An access there faults, and the memory of the parent is unchanged.
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

  // Reserves the spans of `device_count` devices with heaps of `capacity` bytes, rounded down to whole 64 KiB. A second call with
  // the same numbers does nothing; with other numbers it fails. ACL_ERROR_RT_RESOURCE_ALLOC_FAIL if the host does not give the
  // address space.
  static Status reserve(int device_count, size_t capacity);

  // Whether `address` lies in the device view. False for every address before reserve().
  static bool contains(const void* address) {
    const size_t total = total_.load(std::memory_order_acquire);
    return reinterpret_cast<uintptr_t>(address) - base_.load(std::memory_order_relaxed) < total;
  }

  // The device whose span contains `address`. The arena must contain `address`.
  static int device_of(const void* address) {
    const uintptr_t offset = reinterpret_cast<uintptr_t>(address) - base_.load(std::memory_order_relaxed);
    return static_cast<int>(offset >> span_shift_.load(std::memory_order_relaxed));
  }

  // The kernel address of `address`. The arena must contain `address`.
  static void* kernel_address(const void* address) {
    return reinterpret_cast<std::byte*>(reinterpret_cast<uintptr_t>(address)) + total_.load(std::memory_order_relaxed);
  }

  // The device view, and the offset from it to the kernel view. Zeros before reserve().
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

  // The first address of the device's heap.
  static void* heap_begin(int device) {
    return reinterpret_cast<void*>(base_.load(std::memory_order_relaxed) +
                                   (static_cast<uintptr_t>(device) << span_shift_.load(std::memory_order_relaxed)));
  }

  static size_t capacity() { return capacity_.load(std::memory_order_relaxed); }

  // Maps the heap of `device` at the first call and returns its first device address. The host supplies a page when a kernel
  // first writes to it.
  static Result<void*> open_heap(int device);

  // The file of an open heap, from which other processes map parts; -1 if the heap is not open. The arena owns it. The first byte
  // of the heap is the first byte of the file.
  static int heap_file(int device);

  // Returns the memory of a page-aligned part of an open heap to the host. The part reads as zeros afterwards.
  static Status release_pages(void* address, size_t bytes);

  // Allows or forbids access to a page-aligned part of the kernel view of an open heap.
  static Status set_access(void* address, size_t bytes, bool accessible);

  // A segment is a part of a device's span outside its heap. reserve_segment() reserves `bytes`, whole pages;
  // ACL_ERROR_RT_MEMORY_ALLOCATION if no gap is long enough. release_segment() ends the reservation and unmaps all of it.
  static Result<void*> reserve_segment(int device, size_t bytes);
  static Status release_segment(void* address);

  // Maps [offset, offset + bytes) of `file` into the kernel view of a part of a segment, or unmaps such a part. All numbers are
  // whole pages. The caller owns `file` and may close it afterwards.
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
