#include <ATen/Dispatch.h>
#include <ATen/ScalarOps.h>
#include <ATen/ops/add.h>
#include <ATen/ops/all.h>
#include <ATen/ops/any.h>
#include <ATen/ops/div.h>
#include <ATen/ops/elu.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/floor_divide.h>
#include <ATen/ops/is_nonzero.h>
#include <ATen/ops/lcm.h>
#include <ATen/ops/logit.h>
#include <ATen/ops/logit_backward.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/remainder.h>
#include <ATen/ops/result_type.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/sub.h>

#include <limits>

#include "kernels.h"

namespace softnpu::ops::kernels {
namespace {

std::optional<std::string_view> rounding(int64_t mode) {
  TORCH_CHECK(mode >= 0 && mode <= 2, "mode has to be 0 (none), 1 (trunc) or 2 (floor), it is ", mode);
  if (mode == 0) return std::nullopt;
  return mode == 1 ? "trunc" : "floor";
}

// A negative value means "not given".
std::optional<double> bound(double eps) { return eps < 0 ? std::nullopt : std::optional(eps); }

using at::native::wrapped_scalar_tensor;

}  // namespace

void add_to_scalar(const at::Scalar& self, const at::Tensor& other, const at::Scalar& alpha, at::Tensor& out) {
  at::add_out(out, at::scalar_tensor(self, other.options()), other, alpha);
}

// ATen's out= overloads that take a number compute a new tensor and copy it. Those that take a tensor write their output
// directly.
void adds(const at::Tensor& self, const at::Scalar& other, const at::Scalar& alpha, at::Tensor& out) {
  at::add_out(out, self, wrapped_scalar_tensor(other), alpha);
}

void subs(const at::Tensor& self, const at::Scalar& other, const at::Scalar& alpha, at::Tensor& out) {
  at::sub_out(out, self, wrapped_scalar_tensor(other), alpha);
}

void muls(const at::Tensor& self, const at::Scalar& other, at::Tensor& out) {
  at::mul_out(out, self, wrapped_scalar_tensor(other));
}

void divs(const at::Tensor& self, const at::Scalar& other, at::Tensor& out) {
  at::div_out(out, self, wrapped_scalar_tensor(other));
}

void rsubs(const at::Tensor& self, const at::Scalar& other, const at::Scalar& alpha, at::Tensor& out) {
  at::sub_out(out, wrapped_scalar_tensor(other), self, alpha);
}

void floor_divides(const at::Tensor& self, const at::Scalar& other, at::Tensor& out) {
  at::floor_divide_out(out, self, wrapped_scalar_tensor(other));
}

void remainder_of_scalar(const at::Scalar& self, const at::Tensor& other, at::Tensor& out) {
  at::remainder_out(out, wrapped_scalar_tensor(self), other);
}

void celu(const at::Tensor& self, const at::Scalar& alpha, at::Tensor& out) {
  TORCH_CHECK(alpha.toDouble() != 0, "ZeroDivisionError: alpha cannot be 0 for CELU");
  at::elu_out(out, self, alpha, 1.0, 1.0 / alpha.toDouble());
}

void div_mod(const at::Tensor& self, const at::Tensor& other, int64_t mode, at::Tensor& out) {
  at::div_out(out, self, other, rounding(mode));
}

void div_mod_(at::Tensor& selfRef, const at::Tensor& other, int64_t mode) { selfRef.div_(other, rounding(mode)); }

void div_mods(const at::Tensor& self, const at::Scalar& other, int64_t mode, at::Tensor& out) {
  at::div_out(out, self, wrapped_scalar_tensor(other), rounding(mode));
}

void div_mods_(at::Tensor& selfRef, const at::Scalar& other, int64_t mode) { selfRef.div_(other, rounding(mode)); }

void logit(const at::Tensor& input, double eps, at::Tensor& out) { at::logit_out(out, input, bound(eps)); }

void logit_grad(const at::Tensor& x, const at::Tensor& dy, double eps, at::Tensor& out) {
  at::logit_backward_out(out, dy, x, bound(eps));
}

void cast(const at::Tensor& self, at::ScalarType dtype, at::Tensor& out) {
  TORCH_CHECK(out.scalar_type() == dtype, "out is ", out.scalar_type(), ", but dtype is ", dtype);
  out.copy_(self);
}

void equal(const at::Tensor& self, const at::Tensor& other, at::Tensor& out) { out.fill_(at::equal(self, other)); }

void assert_nonzero(const at::Tensor& self, std::string_view message) { TORCH_CHECK(at::is_nonzero(self), message); }

void masked_scale(const at::Tensor& self, const at::Tensor& mask, double scale, at::Tensor& out) {
  at::mul_out(out, self, mask.to(self.scalar_type()));
  out.mul_(scale);
}

// ATen's kernel fails for a result without dimensions.
void is_in(const at::Scalar& element, const at::Tensor& testElements, bool invert, at::Tensor& out) {
  out.fill_(testElements.eq(element).any().item<bool>() != invert);
}

// The absolute value of the smallest number of a type does not fit the type, and the division by the result traps.
void lcm(const at::Tensor& self, const at::Tensor& other, at::Tensor& out) {
  AT_DISPATCH_INTEGRAL_TYPES(at::result_type(self, other), "lcm", [&] {
    constexpr auto kSmallest = std::numeric_limits<scalar_t>::min();
    const bool usual = kSmallest == 0 || (self.ne(kSmallest).all().item<bool>() && other.ne(kSmallest).all().item<bool>());
    TORCH_CHECK(usual, "the smallest number of ", at::result_type(self, other), ", ", int64_t(kSmallest), ", has no multiple");
  });
  at::lcm_out(out, self, other);
}

}  // namespace softnpu::ops::kernels
