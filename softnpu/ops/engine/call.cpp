#include "ops/engine/call.h"

#include <cmath>
#include <limits>

#include "runtime/base/float16.h"

namespace softnpu::ops::engine {
namespace {

constexpr auto kTypeOf = [] {
  std::array<int8_t, kDataTypes> types{};
  types.fill(-1);
  types[ACL_FLOAT] = int8_t(Type::kFloat);
  types[ACL_DOUBLE] = int8_t(Type::kDouble);
  types[ACL_FLOAT16] = int8_t(Type::kHalf);
  types[ACL_BF16] = int8_t(Type::kBFloat16);
  types[ACL_INT8] = int8_t(Type::kInt8);
  types[ACL_UINT8] = int8_t(Type::kUInt8);
  types[ACL_INT16] = int8_t(Type::kInt16);
  types[ACL_INT32] = int8_t(Type::kInt32);
  types[ACL_INT64] = int8_t(Type::kInt64);
  types[ACL_BOOL] = int8_t(Type::kBool);
  return types;
}();

bool integer_fits(int64_t value, aclDataType dtype) {
  switch (dtype) {
    case ACL_INT8:
      return value == int8_t(value);
    case ACL_UINT8:
      return value == uint8_t(value);
    case ACL_INT16:
      return value == int16_t(value);
    case ACL_INT32:
      return value == int32_t(value);
    case ACL_INT64:
      return true;
    default:
      return false;
  }
}

bool run_from(aclDataType dtype, Op op, const TensorView& out, std::initializer_list<const TensorView*> inputs,
              const Values& values) {
  const int type = type_of(dtype);
  if (type < 0) return false;
  for (const TensorView* input : inputs) {
    if (input->dtype != dtype) return false;
  }
  const Run loop = loops().ops[int(op)][type];
  if (!loop) return false;
  Layout layout;
  if (!layout.plan(out, inputs)) return false;
  layout.walk(loop, values);
  return true;
}

}  // namespace

int type_of(aclDataType dtype) { return unsigned(dtype) < unsigned(kDataTypes) ? kTypeOf[dtype] : -1; }

bool set_value(const at::Scalar& scalar, aclDataType dtype, int index, Values& values) {
  const bool integral = scalar.isIntegral(/*includeBool=*/false);
  if ((!integral && !scalar.isFloatingPoint()) || scalar.type() == at::kUInt64) return false;
  switch (dtype) {
    case ACL_DOUBLE:
      values.doubles[index] = integral ? double(scalar.toLong()) : scalar.toDouble();
      return true;
    case ACL_FLOAT:
    case ACL_FLOAT16:
    case ACL_BF16: {
      const double value = integral ? double(scalar.toLong()) : scalar.toDouble();
      values.floats[index] = integral ? float(scalar.toLong()) : float(value);
      return !std::isfinite(value) || std::abs(value) <= double(std::numeric_limits<float>::max());
    }
    default:
      if (!integral || !integer_fits(scalar.toLong(), dtype)) return false;
      values.integers[index] = scalar.toLong();
      return true;
  }
}

bool exact_in(const at::Scalar& scalar, aclDataType dtype) {
  const double value = scalar.toDouble();
  if (dtype == ACL_FLOAT16) return double(float_from_half(half_from_float(float(value)))) == value;
  if (dtype == ACL_BF16) return double(float_from_bfloat16(bfloat16_from_float(float(value)))) == value;
  return true;
}

bool run(Op op, const TensorView& out, std::initializer_list<const TensorView*> inputs, const Values& values) {
  return run_from(out.dtype, op, out, inputs, values);
}

bool run_truth(Op op, const TensorView& out, std::initializer_list<const TensorView*> inputs, const Values& values) {
  return out.dtype == ACL_BOOL && run_from((*inputs.begin())->dtype, op, out, inputs, values);
}

}  // namespace softnpu::ops::engine
