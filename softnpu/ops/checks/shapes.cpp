#include "ops/checks/shapes.h"

#include <algorithm>
#include <bitset>

namespace softnpu::ops {

bool same_shape(const TensorView& a, const TensorView& b) {
  return a.ndim == b.ndim && std::equal(a.sizes, a.sizes + a.ndim, b.sizes);
}

int64_t wrap(int64_t dim, int64_t rank) {
  const int64_t count = std::max<int64_t>(rank, 1);
  if (dim < -count || dim >= count) return -1;
  return dim < 0 ? dim + count : dim;
}

bool is_reduced(const TensorView& from, c10::IntArrayRef dims, bool keepdim, const TensorView& to) {
  std::bitset<kMaxDimensions> chosen;
  for (const int64_t dim : dims) {
    const int64_t place = wrap(dim, from.ndim);
    if (place < 0) return false;
    chosen.set(size_t(place));
  }
  if (dims.empty()) chosen.set();
  int next = 0;
  for (int i = 0; i < from.ndim; ++i) {
    if (chosen[size_t(i)] && !keepdim) continue;
    if (next == to.ndim || to.sizes[next++] != (chosen[size_t(i)] ? 1 : from.sizes[i])) return false;
  }
  return next == to.ndim;
}

bool is_by_columns(const TensorView& view) {
  if (view.ndim < 2) return false;
  const int64_t rows = view.sizes[view.ndim - 2];
  const int64_t columns = view.sizes[view.ndim - 1];
  if (view.numel == 0) return true;
  if ((rows > 1 && view.strides[view.ndim - 2] != 1) || (columns > 1 && view.strides[view.ndim - 1] != rows)) return false;
  int64_t stride = rows * columns;
  for (int i = view.ndim - 3; i >= 0; --i) {
    if (view.sizes[i] > 1 && view.strides[i] != stride) return false;
    stride *= view.sizes[i];
  }
  return true;
}

bool are_axes(c10::IntArrayRef dims, int64_t rank) {
  std::bitset<kMaxDimensions> seen;
  for (const int64_t dim : dims) {
    const int64_t place = wrap(dim, rank);
    if (place < 0 || seen[size_t(place)]) return false;
    seen.set(size_t(place));
  }
  return true;
}

bool same_but(int64_t dim, const TensorView& a, const TensorView& b) {
  const int64_t place = wrap(dim, a.ndim);
  if (a.ndim != b.ndim || place < 0) return false;
  for (int i = 0; i < a.ndim; ++i) {
    if (i != place && a.sizes[i] != b.sizes[i]) return false;
  }
  return true;
}

bool broadcasts(const TensorView& from, const TensorView& to) {
  if (from.ndim > to.ndim) return false;
  for (int i = 1; i <= from.ndim; ++i) {
    const int64_t size = from.sizes[from.ndim - i];
    if (size != 1 && size != to.sizes[to.ndim - i]) return false;
  }
  return true;
}

}  // namespace softnpu::ops
