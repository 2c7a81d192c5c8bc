#include "ops/objects/recent_allocations.h"

#include <algorithm>

namespace softnpu::ops {

bool RecentAllocations::learn(const void* pointer) {
  all_frees_ = driver()->frees;
  alias_offset_ = uintptr_t(driver()->alias_offset);
  const uint64_t frees = __atomic_load_n(all_frees_, __ATOMIC_ACQUIRE);
  if (frees != frees_) {
    ranges_.fill({});
    frees_ = frees;
  }
  uintptr_t begin = 0;
  size_t bytes = 0;
  if (!driver()->find_allocation(pointer, &begin, &bytes)) return false;
  const auto known = [&](const Range& range) { return range.begin == begin && range.bytes == bytes; };
  if (std::any_of(ranges_.begin(), ranges_.end(), known)) return false;
  ranges_[oldest_++ % ranges_.size()] = {begin, bytes};
  return true;
}

}  // namespace softnpu::ops
