// Device allocations that a thread has used recently: a view inside one of them needs no call of the runtime.
//
//   void* data;
//   if (thread_cache().recent_allocations.find(pointer, bytes, &data)) ...   // kernels use `data`
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "ops/library.h"

namespace softnpu::ops {

// One thread uses an object.
class RecentAllocations {
 public:
  // Whether [pointer, pointer + bytes) lies inside one live allocation of device memory. Sets `alias` to the address for kernels.
  bool find(const void* pointer, size_t bytes, void** alias) {
    return recall(pointer, bytes, alias) || (learn(pointer) && recall(pointer, bytes, alias));
  }

 private:
  struct Range {
    uintptr_t begin = 0;
    size_t bytes = 0;
  };

  // Does not call driver(), which would cost more than the rest.
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

  // Adds the allocation of `pointer`. False if there is none, or if it is in the list.
  bool learn(const void* pointer);

  static constexpr uint64_t kNoFrees = 0;
  const uint64_t* all_frees_ = &kNoFrees;  // the free counter of the runtime, once there is a range
  uint64_t frees_ = kNoFrees;              // its value when the ranges were live
  uintptr_t alias_offset_ = 0;
  std::array<Range, 4> ranges_;
  size_t oldest_ = 0;
};

}  // namespace softnpu::ops
