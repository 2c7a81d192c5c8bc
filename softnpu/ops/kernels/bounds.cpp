#include "ops/kernels/bounds.h"

#include <ATen/TensorIterator.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/diff.h>

#include <cstring>

namespace softnpu::ops::kernels {

void check_bounds(const at::Tensor& indices, int64_t size, int64_t first) {
  if (indices.numel() == 0) return;
  const auto [smallest, largest] = at::aminmax(indices);
  const int64_t low = smallest.item<int64_t>(), high = largest.item<int64_t>();
  TORCH_CHECK_INDEX(low >= first && high < size, "index ", low < first ? low : high, " is out of bounds for size ", size);
}

void check_offsets(const at::Tensor& offsets, int64_t size) {
  check_bounds(offsets, size + 1);
  if (offsets.size(-1) < 2) return;
  TORCH_CHECK_INDEX(offsets.diff().ge(0).all().item<bool>(), "the offsets decrease");
}

namespace {

template <class Index>
bool copy_rows(const at::Tensor& self, const Index* indices, int64_t count, bool from_end, char* out) {
  const int64_t size = self.size(0);
  const size_t bytes = self.nbytes() / size_t(std::max<int64_t>(size, 1));
  const char* rows = static_cast<const char*>(self.const_data_ptr());
  for (int64_t i = 0; i < count; ++i) {
    int64_t row = indices[i];
    if (from_end && row < 0) row += size;
    if (uint64_t(row) >= uint64_t(size)) return false;
    std::memcpy(out + size_t(i) * bytes, rows + size_t(row) * bytes, bytes);
  }
  return true;
}

}  // namespace

bool take_rows(const at::Tensor& self, const at::Tensor& indices, bool from_end, at::Tensor& out) {
  const bool dense = self.is_contiguous() && indices.is_contiguous() && out.is_contiguous();
  if (self.dim() == 0 || !dense || out.dtype() != self.dtype() || out.numel() > at::internal::GRAIN_SIZE) return false;
  if (out.numel() == 0) return false;
  const auto depth = size_t(indices.dim());
  const bool fits = out.dim() == indices.dim() + self.dim() - 1 && out.sizes().slice(0, depth) == indices.sizes() &&
                    out.sizes().slice(depth) == self.sizes().slice(1);
  if (!fits) return false;
  char* to = static_cast<char*>(out.mutable_data_ptr());
  const int64_t count = indices.numel();
  bool inside = false;
  if (indices.scalar_type() == at::kLong) {
    inside = copy_rows(self, indices.const_data_ptr<int64_t>(), count, from_end, to);
  } else if (indices.scalar_type() == at::kInt) {
    inside = copy_rows(self, indices.const_data_ptr<int32_t>(), count, from_end, to);
  } else {
    return false;
  }
  if (!inside) check_bounds(indices, self.size(0), from_end ? -self.size(0) : 0);
  return true;
}

}  // namespace softnpu::ops::kernels
