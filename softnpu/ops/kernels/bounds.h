// Checks of indices. They are contents of tensors, so that only the kernel can check them. Some kernels of ATen use them as
// offsets without a check, and some refuse them without naming the wrong one.
//
//   check_bounds(indices, weight.size(0));
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>

namespace softnpu::ops::kernels {

// Throws IndexError with the smallest or largest index unless all are in [first, size).
void check_bounds(const at::Tensor& indices, int64_t size, int64_t first = 0);

// Throws IndexError unless `offsets`, along the last dimension, never decrease and are in [0, size].
void check_offsets(const at::Tensor& offsets, int64_t size);

// Runs `work`. If it fails because of an index, the error names that index.
template <class Work>
void name_the_index(const at::Tensor& indices, int64_t size, Work&& work) {
  try {
    std::forward<Work>(work)();
  } catch (const c10::Error&) {
    check_bounds(indices, size);
    throw;
  }
}

// out[i] = self[indices[i]] for few rows of a dense tensor, where the overhead of ATen is most of the time. With `from_end`
// negative indices count from the end. False if the tensors are not dense or too large: nothing was written. Throws as
// check_bounds() does.
bool take_rows(const at::Tensor& self, const at::Tensor& indices, bool from_end, at::Tensor& out);

}  // namespace softnpu::ops::kernels
