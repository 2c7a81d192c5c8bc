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
    return recall(pointer, bytes, alias) || (learn(pointer) && recall(pointer, bytes, alias));
  }

 private:
  struct Range {
    uintptr_t begin = 0;
    size_t bytes = 0;
  };

  // Without a look at driver(), which costs more than the rest.
  [[gnu::always_inline]] bool recall(const void* pointer, size_t bytes, void** alias) const {
    const auto address = reinterpret_cast<uintptr_t>(pointer);
    if (__atomic_load_n(all_frees_, __ATOMIC_ACQUIRE) != frees_) [[unlikely]]
      return false;
    for (const Range& range : ranges_) {
      if (address - range.begin < range.bytes && bytes <= range.bytes - (address - range.begin)) [[likely]] {
        *alias = reinterpret_cast<void*>(address + alias_offset_);
        return true;
      }
    }
    return false;
  }

  // False if `pointer` is in no live allocation, or its allocation is known.
  bool learn(const void* pointer);

  static constexpr uint64_t kNoFrees = 0;
  const uint64_t* all_frees_ = &kNoFrees;  // the runtime's count, from the first range on
  uint64_t frees_ = kNoFrees;              // that count when the ranges were live
  uintptr_t alias_offset_ = 0;
  std::array<Range, 4> ranges_;
  size_t oldest_ = 0;
};

}  // namespace softnpu::ops
