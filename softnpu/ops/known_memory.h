// Device allocations that a thread has used lately: a view inside one needs no call of the runtime.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "ops/library.h"

namespace softnpu::ops {

// One thread uses it.
class KnownMemory {
 public:
  // Whether [pointer, pointer + bytes) lies inside one live allocation of device memory; sets where kernels see it.
  bool find(const void* pointer, size_t bytes, void** alias) {
    const auto address = reinterpret_cast<uintptr_t>(pointer);
    if (__atomic_load_n(driver()->frees, __ATOMIC_ACQUIRE) == frees_) [[likely]] {
      for (const Range& range : ranges_) {
        if (address - range.begin < range.bytes && bytes <= range.bytes - (address - range.begin)) [[likely]] {
          *alias = reinterpret_cast<void*>(address + uintptr_t(driver()->alias_offset));
          return true;
        }
      }
    }
    return learn(pointer) && find(pointer, bytes, alias);
  }

 private:
  struct Range {
    uintptr_t begin = 0;
    size_t bytes = 0;
  };

  // False if `pointer` is in no live allocation, or its allocation is known.
  bool learn(const void* pointer);

  uint64_t frees_ = 0;  // the runtime's count when the ranges were live
  std::array<Range, 4> ranges_;
  size_t oldest_ = 0;
};

}  // namespace softnpu::ops
