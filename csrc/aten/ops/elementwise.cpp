// Elementwise operators whose device call needs more than the schema's arguments.
#include <ATen/ExpandUtils.h>
#include <ATen/OpMathType.h>
#include <ATen/ScalarOps.h>
#include <ATen/TensorIterator.h>
#include <ATen/TensorOperators.h>
#include <ATen/native/BinaryOps.h>
#include <ATen/native/Gelu.h>
#include <ATen/native/Resize.h>
#include <ATen/native/UnaryOps.h>
#include <ATen/ops/_add_relu.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/bitwise_left_shift.h>
#include <ATen/ops/bitwise_right_shift.h>
#include <ATen/ops/div_meta.h>
#include <ATen/ops/frexp_native.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_meta.h>
#include <ATen/ops/glu_backward_jvp_native.h>
#include <ATen/ops/mvlgamma_native.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sgn_meta.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/where.h>
#include <torch/library.h>

#include "aten/machinery/device_scope.h"
#include "aten/machinery/fast.h"
#include "aten/machinery/outputs.h"
#include "aten/machinery/structured.h"
#include "plugin/calls.h"

namespace torch_npu {
namespace {

// ---- gelu ----

auto gelu_call(const at::Tensor& self, std::string_view approximate) {
  const bool is_tanh = at::native::get_gelutype_enum(approximate) == at::native::GeluType::Tanh;
  return [&self, mode = int64_t{is_tanh}](const at::Tensor& out) { call::aclnnGeluV2(self, mode, out); };
}

at::Tensor gelu(const at::Tensor& self, std::string_view approximate) {
  const DeviceScope scope(self);
  if (fast::applies<fast::Rule::kFloating>(self)) {
    at::Tensor out = empty_as(self, self.dtype());
    gelu_call(self, approximate)(out);
    return out;
  }
  return compute<at::meta::structured_gelu>(gelu_call(self, approximate), self, approximate);
}

template <Form kForm>
at::Tensor& gelu_into(const at::Tensor& self, std::string_view approximate, at::Tensor& out) {
  const DeviceScope scope(self);
  return compute_into<at::meta::structured_gelu, kForm>(out, gelu_call(self, approximate), self, approximate);
}

at::Tensor& gelu_inplace(at::Tensor& self, std::string_view approximate) {
  return gelu_into<Form::kInplace>(self, approximate, self);
}

// ---- division with rounding ----

using RoundingMode = std::optional<std::string_view>;

auto division(const at::Tensor& self, const at::Tensor& other, RoundingMode rounding) {
  constexpr int32_t kNone = 0, kTruncate = 1, kFloor = 2;
  const int32_t mode = !rounding.has_value() ? kNone : *rounding == "floor" ? kFloor : kTruncate;
  return [&self, &other, mode](const at::Tensor& out) {
    if (is_host_scalar(other, self)) return call::aclnnDivMods(self, host_scalar(other), mode, out);
    call::aclnnDivMod(self, other, mode, out);
  };
}

at::Tensor div_mode(const at::Tensor& self, const at::Tensor& other, RoundingMode rounding) {
  const DeviceScope scope(self, other);
  return compute<at::meta::structured_div_Tensor_mode>(division(self, other, rounding), self, other, rounding);
}

template <Form kForm>
at::Tensor& div_mode_into(const at::Tensor& self, const at::Tensor& other, RoundingMode rounding, at::Tensor& out) {
  const DeviceScope scope(self, other, out);
  return compute_into<at::meta::structured_div_Tensor_mode, kForm>(out, division(self, other, rounding), self, other, rounding);
}

at::Tensor& div_mode_inplace(at::Tensor& self, const at::Tensor& other, RoundingMode rounding) {
  return div_mode_into<Form::kInplace>(self, other, rounding, self);
}

// ---- sgn ----

// Complex numbers of half precision have no division: they are divided in float32.
auto direction(const at::Tensor& self) {
  return [&self](const at::Tensor& out) {
    if (!self.is_complex()) return call::aclnnSign(self, out);
    const at::Tensor wide = self.to(at::toOpMathType(self.scalar_type()));
    const at::Tensor length = wide.abs();
    out.copy_(at::where(length == 0, at::Scalar(0), wide / length));
  };
}

at::Tensor sgn(const at::Tensor& self) {
  const DeviceScope scope(self);
  return compute<at::meta::structured_sgn>(direction(self), self);
}

template <Form kForm>
at::Tensor& sgn_into(const at::Tensor& self, at::Tensor& out) {
  const DeviceScope scope(self);
  return compute_into<at::meta::structured_sgn, kForm>(out, direction(self), self);
}

at::Tensor& sgn_inplace(at::Tensor& self) { return sgn_into<Form::kInplace>(self, self); }

// ---- __lshift__ and __rshift__; `Bits` is a tensor or a number ----

template <class Bits>
at::Tensor shift_left(const at::Tensor& self, const Bits& bits) {
  return at::bitwise_left_shift(self, bits);
}
template <class Bits>
at::Tensor& shift_left_inplace(at::Tensor& self, const Bits& bits) {
  return self.bitwise_left_shift_(bits);
}
template <class Bits>
at::Tensor shift_right(const at::Tensor& self, const Bits& bits) {
  return at::bitwise_right_shift(self, bits);
}
template <class Bits>
at::Tensor& shift_right_inplace(at::Tensor& self, const Bits& bits) {
  return self.bitwise_right_shift_(bits);
}

// ---- nan_to_num ----

struct Range {
  double lowest;
  double highest;
};

Range range_of(at::ScalarType dtype) {
  return AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, dtype, "nan_to_num", [] {
    using Limits = std::numeric_limits<scalar_t>;
    return Range{static_cast<double>(Limits::lowest()), static_cast<double>(Limits::max())};
  });
}

at::Tensor& nan_to_num_out(const at::Tensor& self, std::optional<double> nan, std::optional<double> posinf,
                           std::optional<double> neginf, at::Tensor& out) {
  TORCH_CHECK(self.scalar_type() == out.scalar_type(), "nan_to_num: dtype of out: ", out.scalar_type(),
              " should be same as input: ", self.scalar_type());
  const DeviceScope scope(self);
  prepare_output(out, like(self));
  if (at::isIntegralType(self.scalar_type(), /*includeBool=*/true)) return out.copy_(self);
  if (self.is_complex()) {
    TORCH_CHECK_NOT_IMPLEMENTED(self.scalar_type() != at::kComplexHalf, "\"nan_to_num\" not implemented for 'ComplexHalf'");
    at::Tensor parts = at::view_as_real(out);
    nan_to_num_out(at::view_as_real(self.resolve_conj()), nan, posinf, neginf, parts);
    return out;
  }
  const Range range = range_of(self.scalar_type());
  const double highest = posinf.value_or(range.highest), lowest = neginf.value_or(range.lowest);
  if (self.scalar_type() != at::kDouble) {
    call::aclnnNanToNum(self, static_cast<float>(nan.value_or(0)), static_cast<float>(highest), static_cast<float>(lowest), out);
    return out;
  }
  constexpr double kInfinity = std::numeric_limits<double>::infinity();  // the device takes no double
  const at::Tensor bounded = at::where(self == kInfinity, highest, at::where(self == -kInfinity, lowest, self));
  return out.copy_(at::where(self != self, nan.value_or(0), bounded));
}

// ---- compositions ----

at::Tensor& addmm_activation_out(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2, const at::Scalar& beta,
                                 const at::Scalar& alpha, bool use_gelu, at::Tensor& out) {
  at::addmm_out(out, self, mat1, mat2, beta, alpha);
  return use_gelu ? at::gelu_(out) : at::relu_(out);
}

at::Tensor rsub(const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha) { return at::sub(other, self, alpha); }

// A number as a 0-dim tensor that takes part in type promotion as a number.
at::Tensor number_beside(const at::Tensor& self, const at::Scalar& number) {
  at::Tensor tensor = c10::scalar_to_tensor(number).to(self.device());
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

at::Tensor add_relu_scalar(const at::Tensor& self, const at::Scalar& other, const at::Scalar& alpha) {
  return at::_add_relu(self, number_beside(self, other), alpha);
}

at::Tensor& add_relu_scalar_inplace(at::Tensor& self, const at::Scalar& other, const at::Scalar& alpha) {
  return at::_add_relu_(self, number_beside(self, other), alpha);
}

// NaN is the only number that differs from itself.
at::Tensor isnan(const at::Tensor& self) { return at::ne(self, self); }

// The weight has a shape that broadcasts to `self`.
at::Tensor prelu(const at::Tensor& self, const at::Tensor& weight) {
  TORCH_CHECK_NOT_IMPLEMENTED(self.is_floating_point(), "\"prelu_cpu\" not implemented for '", self.scalar_type(), "'");
  return at::where(self > 0, self, weight * self);
}

std::tuple<at::Tensor, at::Tensor> prelu_backward(const at::Tensor& grad, const at::Tensor& self, const at::Tensor& weight) {
  const at::Tensor positive = self > 0;
  return {at::where(positive, grad, weight * grad), at::where(positive, at::Scalar(0), self * grad)};
}

// ---- complex numbers: real and imaginary parts are views ----

at::Tensor& conj_physical_out(const at::Tensor& self, at::Tensor& out) {
  TORCH_CHECK(self.scalar_type() == out.scalar_type(), "Found dtype ", out.scalar_type(), " but expected ", self.scalar_type());
  prepare_output(out, sized(self.sizes(), self.options()));
  out.copy_(self);
  if (out.is_complex()) at::view_as_real(out).select(-1, 1).neg_();
  return out;
}

at::Tensor& conj_physical_inplace(at::Tensor& self) {
  if (self.is_complex()) at::view_as_real(self).select(-1, 1).neg_();
  return self;
}

at::Tensor& complex_out(const at::Tensor& real, const at::Tensor& imag, at::Tensor& out) {
  const auto is_part = [](at::ScalarType dtype) { return dtype == at::kHalf || dtype == at::kFloat || dtype == at::kDouble; };
  TORCH_CHECK(is_part(real.scalar_type()) && is_part(imag.scalar_type()),
              "Expected both inputs to be Half, Float or Double tensors but got ", real.scalar_type(), " and ",
              imag.scalar_type());
  TORCH_CHECK(real.scalar_type() == imag.scalar_type(), "Expected object of scalar type ", real.scalar_type(),
              " but got scalar type ", imag.scalar_type(), " for second argument");
  TORCH_CHECK(out.scalar_type() == at::toComplexType(real.scalar_type()), "Expected object of scalar type ",
              at::toComplexType(real.scalar_type()), " but got scalar type ", out.scalar_type(), " for argument 'out'");
  prepare_output(out, broadcast({real, imag}, out.scalar_type()));
  const at::Tensor parts = at::view_as_real(out);
  parts.select(-1, 0).copy_(real);
  parts.select(-1, 1).copy_(imag);
  return out;
}

at::Tensor& polar_out(const at::Tensor& abs, const at::Tensor& angle, at::Tensor& out) {
  TORCH_CHECK_NOT_IMPLEMENTED(abs.scalar_type() != at::kHalf, "\"polar_cpu\" not implemented for 'Half'");
  TORCH_CHECK(abs.scalar_type() == angle.scalar_type(), "Expected object of scalar type ", abs.scalar_type(),
              " but got scalar type ", angle.scalar_type(), " for second argument");
  return complex_out(abs * angle.cos(), abs * angle.sin(), out);
}

// ---- stubs of frexp and ldexp; mvlgamma is PyTorch's own function ----

void frexp(at::TensorIteratorBase& operands) {
  const DeviceScope scope(operands.tensor(0));
  call::aclnnSoftFrexp(operands.tensor(2), operands.tensor(0), operands.tensor(1));
}

// Computed in the wider type, since the power of two may overflow or underflow where the product does not.
void ldexp(at::TensorIteratorBase& operands) {
  const at::Tensor& self = operands.tensor(1);
  const at::ScalarType wide = at::toOpMathType(self.scalar_type());
  operands.tensor(0).copy_(self.to(wide) * at::pow(2., operands.tensor(2).to(wide)));
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("gelu", TORCH_FN(gelu));
  m.impl("gelu.out", TORCH_FN(gelu_into<Form::kOut>));
  m.impl("gelu_", TORCH_FN(gelu_inplace));
  m.impl("div.Tensor_mode", TORCH_FN(div_mode));
  m.impl("div.out_mode", TORCH_FN(div_mode_into<Form::kOut>));
  m.impl("div_.Tensor_mode", TORCH_FN(div_mode_inplace));
  m.impl("sgn", TORCH_FN(sgn));
  m.impl("sgn.out", TORCH_FN(sgn_into<Form::kOut>));
  m.impl("sgn_", TORCH_FN(sgn_inplace));
  m.impl("__lshift__.Tensor", TORCH_FN(shift_left<at::Tensor>));
  m.impl("__lshift__.Scalar", TORCH_FN(shift_left<at::Scalar>));
  m.impl("__ilshift__.Tensor", TORCH_FN(shift_left_inplace<at::Tensor>));
  m.impl("__ilshift__.Scalar", TORCH_FN(shift_left_inplace<at::Scalar>));
  m.impl("__rshift__.Tensor", TORCH_FN(shift_right<at::Tensor>));
  m.impl("__rshift__.Scalar", TORCH_FN(shift_right<at::Scalar>));
  m.impl("__irshift__.Tensor", TORCH_FN(shift_right_inplace<at::Tensor>));
  m.impl("__irshift__.Scalar", TORCH_FN(shift_right_inplace<at::Scalar>));
  m.impl("nan_to_num.out", TORCH_FN(nan_to_num_out));
  m.impl("_add_relu.Scalar", TORCH_FN(add_relu_scalar));
  m.impl("_add_relu_.Scalar", TORCH_FN(add_relu_scalar_inplace));
  m.impl("glu_backward_jvp", TORCH_FN(at::native::glu_backward_jvp));
  m.impl("_addmm_activation.out", TORCH_FN(addmm_activation_out));
  m.impl("rsub.Tensor", TORCH_FN(rsub));
  m.impl("isnan", TORCH_FN(isnan));
  m.impl("_prelu_kernel", TORCH_FN(prelu));
  m.impl("_prelu_kernel_backward", TORCH_FN(prelu_backward));
  m.impl("conj_physical.out", TORCH_FN(conj_physical_out));
  m.impl("conj_physical_", TORCH_FN(conj_physical_inplace));
  m.impl("complex.out", TORCH_FN(complex_out));
  m.impl("polar.out", TORCH_FN(polar_out));
  m.impl("frexp.Tensor_out", TORCH_FN(at::native::frexp_out));
  m.impl("mvlgamma.out", TORCH_FN(at::native::mvlgamma_out));
}

}  // namespace torch_npu

namespace at::native {

REGISTER_PRIVATEUSE1_DISPATCH(frexp_stub, &torch_npu::frexp)
REGISTER_PRIVATEUSE1_DISPATCH(ldexp_stub, &torch_npu::ldexp)

}  // namespace at::native
