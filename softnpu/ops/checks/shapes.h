// Predicates on the shapes of tensors. Thread-safe: they look at their arguments only.
//
//   if (!broadcasts(bias, out)) return ...;
#pragma once

#include "ops/objects/objects.h"

namespace softnpu::ops {

// The dimension counted from the front; -1 if a tensor of `rank` dimensions does not have it. A number has dimension 0.
int64_t wrap(int64_t dim, int64_t rank);

// Whether `dims` are dimensions of a tensor of `rank` dimensions, each of them once.
bool are_axes(c10::IntArrayRef dims, int64_t rank);

bool same_shape(const TensorView& a, const TensorView& b);

// Whether the shapes are equal in all dimensions except `dim`.
bool same_but(int64_t dim, const TensorView& a, const TensorView& b);

// Whether a tensor of the shape of `from` broadcasts to that of `to`.
bool broadcasts(const TensorView& from, const TensorView& to);

// Whether `to` has the shape of `from` reduced over `dims`; over all dimensions if `dims` is empty.
bool is_reduced(const TensorView& from, c10::IntArrayRef dims, bool keepdim, const TensorView& to);

// Whether the matrices of a batch are dense and lie column by column, as LAPACK wants them.
bool is_by_columns(const TensorView& view);

}  // namespace softnpu::ops
