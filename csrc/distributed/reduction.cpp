#include "distributed/reduction.h"

#include <ATen/ops/bitwise_and.h>
#include <ATen/ops/bitwise_or.h>
#include <ATen/ops/bitwise_xor.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/view_as_real.h>

#include "distributed/data_types.h"

namespace torch_npu::distributed {
namespace {

using Type = c10d::ReduceOp::RedOpType;

const char* name_of(Type type) {
  constexpr const char* kNames[] = {"SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "PREMUL_SUM"};
  return static_cast<size_t>(type) < std::size(kNames) ? kNames[type] : "an unknown operator";
}

HcclReduceOp native_op(Type type, bool is_bool) {
  switch (type) {
    case Type::PRODUCT:
      return is_bool ? HCCL_REDUCE_MIN : HCCL_REDUCE_PROD;
    case Type::MIN:
      return HCCL_REDUCE_MIN;
    case Type::MAX:
      return HCCL_REDUCE_MAX;
    default:
      return is_bool ? HCCL_REDUCE_MAX : HCCL_REDUCE_SUM;
  }
}

// The reason why the operator does not support the data type; null if it does.
const char* objection(Type type, c10::ScalarType data_type, const char* op) {
  const bool is_bool = data_type == c10::kBool;
  const bool is_integral = c10::isIntegralType(data_type, /*includeBool=*/true);
  switch (type) {
    case Type::SUM:
      break;
    case Type::AVG:
      if (is_bool) return "an average of bool is not defined; convert the tensor to a type of numbers";
      break;
    case Type::PREMUL_SUM:
      if (is_integral) return "the factor of PREMUL_SUM is not a whole number; convert the tensor to a floating point type";
      break;
    case Type::PRODUCT:
    case Type::MIN:
    case Type::MAX:
      if (c10::isComplexType(data_type)) return "complex numbers are reduced with SUM, AVG or PREMUL_SUM only";
      break;
    case Type::BAND:
    case Type::BOR:
    case Type::BXOR:
      if (!is_integral) return "bitwise operators are for integers and bool";
      break;
    default:
      return "the operators are SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR and PREMUL_SUM";
  }
  if (!can_reduce(wire_type(data_type, op).type)) return "this type is moved but not reduced; convert it to torch.float16";
  return nullptr;
}

// Divides uint64. ATen has no such division, so half of each number is divided as int64.
void divide_unsigned(const at::Tensor& numbers, int64_t divisor) {
  const at::Tensor whole = numbers.view(at::kLong);
  const at::Tensor half = whole.bitwise_right_shift(1).bitwise_and(INT64_MAX);
  const at::Tensor quotient = half.div(divisor, "trunc").mul(2);  // at most 1 too small
  const at::Tensor rest = whole.sub(quotient.mul(divisor));
  whole.copy_(quotient.add(rest.ge(divisor)));
}

}  // namespace

Reduction::Reduction(const c10d::ReduceOp& reduce_op, c10::ScalarType type, const char* op) : type_(reduce_op.op_) {
  const char* const reason = objection(type_, type, op);
  TORCH_CHECK_TYPE(reason == nullptr, op, ": the backend hccl cannot reduce ", type, " with ", name_of(type_), ": ", reason);
  is_bitwise_ = type_ == Type::BAND || type_ == Type::BOR || type_ == Type::BXOR;
  op_ = native_op(type_, type == c10::kBool);
  if (type_ != Type::PREMUL_SUM) return;
  factor_ = c10::dynamic_intrusive_pointer_cast<c10d::NCCLPreMulSumSupplement>(reduce_op.supplement_);
  TORCH_CHECK(factor_, op, ": PREMUL_SUM has no factor; make the operator with torch.distributed._make_nccl_premul_sum(factor)");
}

const char* Reduction::note() const {
  const bool is_known = type_ == Type::SUM || type_ == Type::PRODUCT || type_ == Type::MIN || type_ == Type::MAX;
  return is_known ? "" : name_of(type_);
}

bool Reduction::widens(const at::Tensor& tensor) const {
  return type_ == Type::AVG && c10::isIntegralType(tensor.scalar_type(), false) && tensor.element_size() < 8;
}

at::Tensor Reduction::prepare(const at::Tensor& input) const {
  if (!factor_) return input;
  if (!factor_->tensor_factor.defined()) return at::mul(input, factor_->double_factor);
  return at::mul(input, factor_->tensor_factor.to(input.options()).reshape({}));
}

void Reduction::finish(const at::Tensor& output, int64_t ranks) const {
  if (type_ != Type::AVG) return;
  if (output.scalar_type() == c10::ScalarType::UInt64) return divide_unsigned(output, ranks);
  if (c10::isIntegralType(output.scalar_type(), false)) {
    output.div_(ranks, "trunc");
  } else if (output.is_complex()) {
    at::view_as_real(output).div_(ranks);  // complex division rounds differently, and its rounding depends on the size
  } else {
    output.div_(ranks);
  }
}

void Reduction::combine(const at::Tensor& inputs, const at::Tensor& output) const {
  output.copy_(inputs.select(0, 0));
  for (int64_t row = 1; row < inputs.size(0); ++row) {
    const at::Tensor next = inputs.select(0, row);
    if (type_ == Type::BAND) {
      output.bitwise_and_(next);
    } else if (type_ == Type::BOR) {
      output.bitwise_or_(next);
    } else {
      output.bitwise_xor_(next);
    }
  }
}

}  // namespace torch_npu::distributed
