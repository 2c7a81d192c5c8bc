// Indices are data: only the kernel sees them. Some kernels of ATen use them as places in memory without a look, and some refuse
// them without saying which one is wrong.
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>

namespace softnpu::ops::kernels {

// Throws with the smallest or largest of `indices` unless all of them are in [first, size).
void check_bounds(const at::Tensor& indices, int64_t size, int64_t first = 0);

// Throws unless `offsets` begin with 0 at the least, never fall and end with `size` at the most, along the last dimension.
void check_offsets(const at::Tensor& offsets, int64_t size);

// Runs `work`. When it fails and an index is the reason, the failure names that index.
template <class Work>
void name_the_index(const at::Tensor& indices, int64_t size, Work&& work) {
  try {
    std::forward<Work>(work)();
  } catch (const c10::Error&) {
    check_bounds(indices, size);
    throw;
  }
}

// Few rows of a dense tensor: out[i] = self[indices[i]], as the smallest of these calls spend most of their time on the way.
// `from_end` lets an index count from the end. False where that is not what there is, and nothing was written; throws as
// check_bounds() does.
bool take_rows(const at::Tensor& self, const at::Tensor& indices, bool from_end, at::Tensor& out);

}  // namespace softnpu::ops::kernels
