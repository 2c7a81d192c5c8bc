#include <ATen/Dispatch.h>
#include <ATen/ops/add.h>
#include <ATen/ops/all.h>
#include <ATen/ops/any.h>
#include <ATen/ops/div.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/is_nonzero.h>
#include <ATen/ops/lcm.h>
#include <ATen/ops/logit.h>
#include <ATen/ops/logit_backward.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/result_type.h>
#include <ATen/ops/rsub.h>
#include <ATen/ops/scalar_tensor.h>

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

}  // namespace

void add_to_scalar(const at::Scalar& self, const at::Tensor& other, const at::Scalar& alpha, at::Tensor& out) {
  at::add_out(out, at::scalar_tensor(self, other.options()), other, alpha);
}

void rsubs(const at::Tensor& self, const at::Scalar& other, const at::Scalar& alpha, at::Tensor& out) {
  at::rsub_out(out, self, other, alpha);
}

void div_mod(const at::Tensor& self, const at::Tensor& other, int64_t mode, at::Tensor& out) {
  at::div_out(out, self, other, rounding(mode));
}

void div_mod_(at::Tensor& selfRef, const at::Tensor& other, int64_t mode) { selfRef.div_(other, rounding(mode)); }

void div_mods(const at::Tensor& self, const at::Scalar& other, int64_t mode, at::Tensor& out) {
  at::div_out(out, self, other, rounding(mode));
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
