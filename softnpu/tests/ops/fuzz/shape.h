// The sizes of a tensor.
#pragma once

#include <algorithm>

#include "ops/fuzz/case.h"

namespace softnpu::fuzz {

struct Shape {
  int rank = 0;
  int64_t sizes[kMaxRank] = {};

  int64_t& back() { return sizes[rank - 1]; }
  void push(int64_t size) {
    if (rank < kMaxRank) sizes[rank++] = size;
  }
};

inline Shape shape_of(const Tensor& tensor) {
  Shape shape;
  shape.rank = tensor.rank;
  std::copy_n(tensor.sizes, tensor.rank, shape.sizes);
  return shape;
}

// Makes the tensor dense, with that shape. Reduces large sizes, so that a call takes at most a few milliseconds.
inline void set_shape(Tensor& tensor, const Shape& shape) {
  tensor.rank = shape.rank;
  std::copy_n(shape.sizes, shape.rank, tensor.sizes);
  while (count_elements(tensor) > kMaxElements) *std::max_element(tensor.sizes, tensor.sizes + tensor.rank) = 1;
  set_dense(tensor);
  tensor.offset = 0;
  tensor.has_strides = true;
}

}  // namespace softnpu::fuzz
