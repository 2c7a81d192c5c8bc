#include "ops/engine/call.h"
#include "ops/engine/engine.h"

namespace softnpu::ops::engine {
namespace {

bool against_tensor(Op op, const TensorView* tensors, int tensor_count) {
  return tensor_count == 3 && run_truth(op, tensors[2], {&tensors[0], &tensors[1]});
}

bool against_scalar(Op op, const TensorView* tensors, int tensor_count, const at::Scalar& scalar) {
  Values values{};
  return tensor_count == 2 && set_value(scalar, tensors[0].dtype, 0, values) && exact_in(scalar, tensors[0].dtype) &&
         run_truth(op, tensors[1], {&tensors[0]}, values);
}

}  // namespace

bool try_eq(const TensorView* tensors, int tensor_count, const at::Scalar*) {
  return against_tensor(Op::kEq, tensors, tensor_count);
}
bool try_eqs(const TensorView* tensors, int tensor_count, const at::Scalar* scalars) {
  return against_scalar(Op::kEqScalar, tensors, tensor_count, scalars[0]);
}

bool try_ne(const TensorView* tensors, int tensor_count, const at::Scalar*) {
  return against_tensor(Op::kNe, tensors, tensor_count);
}
bool try_nes(const TensorView* tensors, int tensor_count, const at::Scalar* scalars) {
  return against_scalar(Op::kNeScalar, tensors, tensor_count, scalars[0]);
}

bool try_lt(const TensorView* tensors, int tensor_count, const at::Scalar*) {
  return against_tensor(Op::kLt, tensors, tensor_count);
}
bool try_lts(const TensorView* tensors, int tensor_count, const at::Scalar* scalars) {
  return against_scalar(Op::kLtScalar, tensors, tensor_count, scalars[0]);
}

bool try_le(const TensorView* tensors, int tensor_count, const at::Scalar*) {
  return against_tensor(Op::kLe, tensors, tensor_count);
}
bool try_les(const TensorView* tensors, int tensor_count, const at::Scalar* scalars) {
  return against_scalar(Op::kLeScalar, tensors, tensor_count, scalars[0]);
}

bool try_gt(const TensorView* tensors, int tensor_count, const at::Scalar*) {
  return against_tensor(Op::kGt, tensors, tensor_count);
}
bool try_gts(const TensorView* tensors, int tensor_count, const at::Scalar* scalars) {
  return against_scalar(Op::kGtScalar, tensors, tensor_count, scalars[0]);
}

bool try_ge(const TensorView* tensors, int tensor_count, const at::Scalar*) {
  return against_tensor(Op::kGe, tensors, tensor_count);
}
bool try_ges(const TensorView* tensors, int tensor_count, const at::Scalar* scalars) {
  return against_scalar(Op::kGeScalar, tensors, tensor_count, scalars[0]);
}

}  // namespace softnpu::ops::engine
