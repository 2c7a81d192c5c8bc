#include "ops/kernels/bounds.h"

#include <ATen/ops/aminmax.h>

namespace softnpu::ops::kernels {

void check_bounds(const at::Tensor& indices, int64_t size, int64_t first) {
  if (indices.numel() == 0) return;
  const auto [smallest, largest] = at::aminmax(indices);
  const int64_t low = smallest.item<int64_t>(), high = largest.item<int64_t>();
  TORCH_CHECK_INDEX(low >= first && high < size, "index ", low < first ? low : high, " is out of bounds for size ", size);
}

}  // namespace softnpu::ops::kernels
