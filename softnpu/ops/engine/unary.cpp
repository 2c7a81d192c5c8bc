#include <cmath>

#include "ops/engine/call.h"
#include "ops/engine/engine.h"

namespace softnpu::ops::engine {
namespace {

bool unary(Op op, const TensorView* tensors, int tensor_count) {
  return run(op, output(tensors, tensor_count, 1), {&tensors[0]});
}

}  // namespace

bool try_neg(const TensorView* tensors, int tensor_count, const at::Scalar*) { return unary(Op::kNeg, tensors, tensor_count); }
bool try_abs(const TensorView* tensors, int tensor_count, const at::Scalar*) { return unary(Op::kAbs, tensors, tensor_count); }
bool try_relu(const TensorView* tensors, int tensor_count, const at::Scalar*) { return unary(Op::kRelu, tensors, tensor_count); }
bool try_reciprocal(const TensorView* tensors, int tensor_count, const at::Scalar*) {
  return unary(Op::kReciprocal, tensors, tensor_count);
}
bool try_floor(const TensorView* tensors, int tensor_count, const at::Scalar*) {
  return unary(Op::kFloor, tensors, tensor_count);
}
bool try_ceil(const TensorView* tensors, int tensor_count, const at::Scalar*) { return unary(Op::kCeil, tensors, tensor_count); }
bool try_trunc(const TensorView* tensors, int tensor_count, const at::Scalar*) {
  return unary(Op::kTrunc, tensors, tensor_count);
}
bool try_round(const TensorView* tensors, int tensor_count, const at::Scalar*) {
  return unary(Op::kRound, tensors, tensor_count);
}

bool try_clamp(const TensorView* tensors, int tensor_count, const at::Scalar* scalars) {
  const TensorView& out = output(tensors, tensor_count, 1);
  Values values{};
  for (int i = 0; i < 2; ++i) {
    if (!set_value(scalars[i], out.dtype, i, values) || !exact_in(scalars[i], out.dtype)) return false;
    if (std::isnan(scalars[i].toDouble())) return false;
  }
  return run(Op::kClamp, out, {&tensors[0]}, values);
}

bool try_leaky_relu(const TensorView* tensors, int tensor_count, const at::Scalar* scalars) {
  const TensorView& out = output(tensors, tensor_count, 1);
  Values values{};
  return set_value(scalars[0], out.dtype, 0, values) && run(Op::kLeakyRelu, out, {&tensors[0]}, values);
}

bool try_pows(const TensorView* tensors, int tensor_count, const at::Scalar* scalars) {
  const TensorView& out = output(tensors, tensor_count, 1);
  if (out.dtype != ACL_FLOAT && out.dtype != ACL_DOUBLE) return false;
  if (scalars[0].equal(2.0)) return run(Op::kMul, out, {&tensors[0], &tensors[0]});
  return scalars[0].equal(3.0) && run(Op::kCube, out, {&tensors[0]});
}

bool try_threshold_backward(const TensorView* tensors, int tensor_count, const at::Scalar* scalars) {
  const TensorView& out = output(tensors, tensor_count, 2);
  Values values{};
  return set_value(scalars[0], out.dtype, 0, values) && exact_in(scalars[0], out.dtype) &&
         run(Op::kThresholdBackward, out, {&tensors[0], &tensors[1]}, values);
}

}  // namespace softnpu::ops::engine
