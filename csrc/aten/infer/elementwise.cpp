// Shapes of elementwise operators, and of flip and roll.
#include <ATen/Dispatch_v2.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/WrapDimUtilsMulti.h>
#include <ATen/ops/promote_types.h>
#include <ATen/ops/result_type.h>

#include "aten/machinery/infer.h"

namespace torch_npu::infer {

void check_real(const at::Scalar& value, at::ScalarType dtype) {
  if (!value.isComplex() || at::isComplexType(dtype)) return;
  AT_DISPATCH_V2(dtype, "check_real", AT_WRAP([&] { (void)value.to<scalar_t>(); }), AT_EXPAND(AT_ALL_TYPES), at::kBool, at::kHalf,
                 at::kBFloat16);
}

Outputs<1> absolute(const at::Tensor& self) {
  Output output = like(self, c10::toRealValueType(self.scalar_type()));
  output.casts = self.is_complex();
  return {output};
}

Outputs<1> truth_of_two(const at::Tensor& self, const at::Tensor& other) { return {broadcast({self, other}, at::kBool)}; }

Outputs<1> promoted(const at::Tensor& self, const at::Tensor& other) {
  return {broadcast({self, other}, at::result_type(self, other))};
}

Outputs<1> number_first(const at::Scalar& self, const at::Tensor& other) {
  return {elementwise(other, at::result_type(self, other))};
}

Outputs<1> where(const at::Tensor& condition, const at::Tensor& self, const at::Tensor& other) {
  TORCH_CHECK(condition.scalar_type() == at::kBool || condition.scalar_type() == at::kByte,
              "where expected condition to be a boolean tensor, but got a tensor with dtype ", condition.scalar_type());
  // A 0-dim CPU tensor does not change the shape.
  const at::Tensor& on_device = !condition.is_cpu() ? condition : !self.is_cpu() ? self : other;
  const auto shape = [&](const at::Tensor& x) { return std::cref(x.is_cpu() && x.dim() == 0 ? on_device : x); };
  Output output = broadcast({shape(condition), shape(self), shape(other)}, at::result_type(self, other));
  output.casts = false;
  return {output};
}

Outputs<1> flip(const at::Tensor& self, at::IntArrayRef dims) {
  at::dim_list_to_bitset(dims, self.dim());
  return {like(self)};
}

Outputs<1> roll(const at::Tensor& self, at::IntArrayRef shifts, at::IntArrayRef dims) {
  TORCH_CHECK(!shifts.empty(), "`shifts` required");
  TORCH_CHECK(dims.size() == shifts.size() || (dims.empty() && shifts.size() == 1),
              "shifts and dimensions must align. shifts: ", shifts.size(), ", dims:", dims.size());
  for (const int64_t dim : dims) at::maybe_wrap_dim(dim, self.dim(), /*wrap_scalar=*/false);
  return {dims.empty() ? sized(self.sizes(), self.options()) : formatted_like(self)};
}

Outputs<1> hardtanh(const at::Tensor& self, const at::Scalar& min_val, const at::Scalar& max_val) {
  TORCH_CHECK(self.scalar_type() != at::kBool, "Bool inputs not supported for hardtanh");
  TORCH_CHECK(self.scalar_type() != at::kByte || (min_val.toLong() >= 0 && max_val.toLong() >= 0),
              "cannot do hardtanh on an unsigned type with negative limits");
  return {like(self)};
}

Outputs<2> log_sigmoid(const at::Tensor& self) { return {like(self), sized(self.sizes(), self.options())}; }

Outputs<1> logit(const at::Tensor& self, std::optional<double> /*eps*/) {
  const bool whole = at::isIntegralType(self.scalar_type(), /*includeBool=*/true);
  return {elementwise(self, whole ? c10::get_default_dtype_as_scalartype() : self.scalar_type())};
}

Outputs<1> angle(const at::Tensor& self) {
  const bool whole = at::isIntegralType(self.scalar_type(), /*includeBool=*/true);
  return {elementwise(self, whole ? c10::get_default_dtype_as_scalartype() : c10::toRealValueType(self.scalar_type()))};
}

void pointwise(const at::Tensor& self, const at::Tensor& tensor1, const at::Tensor& tensor2, const at::Scalar& value) {
  check_real(value, at::promote_types(at::result_type(self, tensor1), tensor2.scalar_type()));
}

void lerp_number(const at::Tensor& self, const at::Tensor& /*end*/, const at::Scalar& weight) {
  check_real(weight, self.scalar_type());
}

void clamp_numbers(const at::Tensor& self, const std::optional<at::Scalar>& min, const std::optional<at::Scalar>& max) {
  const auto keeps_bool = [](const std::optional<at::Scalar>& number) { return !number.has_value() || number->isBoolean(); };
  TORCH_CHECK_NOT_IMPLEMENTED(self.scalar_type() != at::kBool || !keeps_bool(min) || !keeps_bool(max),
                              "\"clamp\" not implemented for 'Bool'");
}

void clamp_tensors(const at::Tensor& self, const OptionalTensor& min, const OptionalTensor& max) {
  const auto is_bool = [](const OptionalTensor& tensor) { return is_given(tensor) && tensor->scalar_type() == at::kBool; };
  TORCH_CHECK_NOT_IMPLEMENTED(!is_bool(self) || !is_bool(min) || !is_bool(max), "\"clamp\" not implemented for 'Bool'");
}

}  // namespace torch_npu::infer
