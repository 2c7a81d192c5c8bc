#include <cmath>

#include "ops/engine/call.h"
#include "ops/engine/engine.h"

namespace softnpu::ops::engine {
namespace {

bool packed(aclDataType dtype) { return dtype == ACL_FLOAT16 || dtype == ACL_BF16; }

// In half precision, and where b is one number for the row, ATen rounds alpha * b in the last elements of a row but not in the
// others. The engine takes such a call only if the product is exact.
bool exact_product(const at::Scalar& alpha) { return std::abs(alpha.toDouble()) == 1; }

bool repeats(const TensorView& out, const TensorView& input) {
  if (input.ndim < out.ndim) return true;
  for (int dim = 0; dim < out.ndim; ++dim) {
    if (out.sizes[dim] > 1 && (input.sizes[dim] == 1 || input.strides[dim] == 0)) return true;
  }
  return false;
}

bool fraction(aclDataType dtype) { return dtype == ACL_FLOAT || dtype == ACL_DOUBLE || packed(dtype); }

void negate(Values& values, int index) {
  values.doubles[index] = -values.doubles[index];
  values.floats[index] = -values.floats[index];
  values.integers[index] = int64_t(-uint64_t(values.integers[index]));
}

bool add_tensors(const TensorView* tensors, int tensor_count, const at::Scalar& alpha, bool subtract) {
  const TensorView& out = output(tensors, tensor_count, 2);
  Values values{};
  if (!set_value(alpha, out.dtype, 0, values)) return false;
  if (!exact_product(alpha) && fraction(out.dtype) && (packed(out.dtype) || repeats(out, tensors[1]))) return false;
  if (subtract) negate(values, 0);
  return run(Op::kAdd, out, {&tensors[0], &tensors[1]}, values);
}

bool add_scalar(const TensorView* tensors, int tensor_count, const at::Scalar* scalars, bool subtract) {
  const TensorView& out = output(tensors, tensor_count, 1);
  Values values{};
  if (!set_value(scalars[0], out.dtype, 0, values) || !set_value(scalars[1], out.dtype, 1, values)) return false;
  if (!exact_in(scalars[0], out.dtype) || (!exact_product(scalars[1]) && fraction(out.dtype))) return false;
  if (subtract) negate(values, 1);
  return run(Op::kAddScalar, out, {&tensors[0]}, values);
}

bool with_scalar(Op op, const TensorView* tensors, int tensor_count, const at::Scalar& scalar) {
  const TensorView& out = output(tensors, tensor_count, 1);
  Values values{};
  return set_value(scalar, out.dtype, 0, values) && run(op, out, {&tensors[0]}, values);
}

bool pointwise(Op op, const TensorView* tensors, int tensor_count, const at::Scalar& value) {
  const TensorView& out = output(tensors, tensor_count, 3);
  Values values{};
  return set_value(value, out.dtype, 0, values) && run(op, out, {&tensors[0], &tensors[1], &tensors[2]}, values);
}

}  // namespace

bool try_add(const TensorView* tensors, int tensor_count, const at::Scalar* scalars) {
  return add_tensors(tensors, tensor_count, scalars[0], false);
}

bool try_sub(const TensorView* tensors, int tensor_count, const at::Scalar* scalars) {
  return add_tensors(tensors, tensor_count, scalars[0], true);
}

bool try_adds(const TensorView* tensors, int tensor_count, const at::Scalar* scalars) {
  return add_scalar(tensors, tensor_count, scalars, false);
}

bool try_subs(const TensorView* tensors, int tensor_count, const at::Scalar* scalars) {
  return add_scalar(tensors, tensor_count, scalars, true);
}

bool try_mul(const TensorView* tensors, int tensor_count, const at::Scalar*) {
  return run(Op::kMul, output(tensors, tensor_count, 2), {&tensors[0], &tensors[1]});
}

bool try_div(const TensorView* tensors, int tensor_count, const at::Scalar*) {
  return run(Op::kDiv, output(tensors, tensor_count, 2), {&tensors[0], &tensors[1]});
}

bool try_maximum(const TensorView* tensors, int tensor_count, const at::Scalar*) {
  return run(Op::kMaximum, output(tensors, tensor_count, 2), {&tensors[0], &tensors[1]});
}

bool try_minimum(const TensorView* tensors, int tensor_count, const at::Scalar*) {
  return run(Op::kMinimum, output(tensors, tensor_count, 2), {&tensors[0], &tensors[1]});
}

bool try_muls(const TensorView* tensors, int tensor_count, const at::Scalar* scalars) {
  return with_scalar(Op::kMulScalar, tensors, tensor_count, scalars[0]);
}

bool try_divs(const TensorView* tensors, int tensor_count, const at::Scalar* scalars) {
  return with_scalar(Op::kDivScalar, tensors, tensor_count, scalars[0]);
}

bool try_lerps(const TensorView* tensors, int tensor_count, const at::Scalar* scalars) {
  const TensorView& out = output(tensors, tensor_count, 2);
  Values values{};
  return set_value(scalars[0], out.dtype, 0, values) && run(Op::kLerp, out, {&tensors[0], &tensors[1]}, values);
}

bool try_addcmul(const TensorView* tensors, int tensor_count, const at::Scalar* scalars) {
  return pointwise(Op::kAddcmul, tensors, tensor_count, scalars[0]);
}

bool try_addcdiv(const TensorView* tensors, int tensor_count, const at::Scalar* scalars) {
  return pointwise(Op::kAddcdiv, tensors, tensor_count, scalars[0]);
}

}  // namespace softnpu::ops::engine
