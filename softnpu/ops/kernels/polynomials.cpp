// Orthogonal polynomials. Their kernels compute one degree after the other, so that huge degrees are refused.
#include <ATen/ops/any.h>
#include <ATen/ops/gt.h>
#include <ATen/ops/special_chebyshev_polynomial_t.h>
#include <ATen/ops/special_chebyshev_polynomial_u.h>
#include <ATen/ops/special_chebyshev_polynomial_v.h>
#include <ATen/ops/special_chebyshev_polynomial_w.h>
#include <ATen/ops/special_hermite_polynomial_h.h>
#include <ATen/ops/special_hermite_polynomial_he.h>
#include <ATen/ops/special_laguerre_polynomial_l.h>
#include <ATen/ops/special_legendre_polynomial_p.h>
#include <ATen/ops/special_shifted_chebyshev_polynomial_t.h>
#include <ATen/ops/special_shifted_chebyshev_polynomial_u.h>
#include <ATen/ops/special_shifted_chebyshev_polynomial_v.h>
#include <ATen/ops/special_shifted_chebyshev_polynomial_w.h>

#include "kernels.h"

namespace softnpu::ops::kernels {
namespace {

using Polynomial = at::Tensor& (*)(at::Tensor& out, const at::Tensor& x, const at::Tensor& n);

constexpr double kLargestDegree = 1 << 16;

void evaluate(Polynomial polynomial, const at::Tensor& x, const at::Tensor& n, at::Tensor& out) {
  const bool is_huge = n.to(at::kDouble).gt(kLargestDegree).any().item<bool>();
  TORCH_CHECK(!is_huge, "the degree of a polynomial is larger than ", int64_t(kLargestDegree));
  polynomial(out, x, n);
}

}  // namespace

void chebyshev_polynomial_t(const at::Tensor& x, const at::Tensor& n, at::Tensor& out) {
  evaluate(at::special_chebyshev_polynomial_t_out, x, n, out);
}
void chebyshev_polynomial_u(const at::Tensor& x, const at::Tensor& n, at::Tensor& out) {
  evaluate(at::special_chebyshev_polynomial_u_out, x, n, out);
}
void chebyshev_polynomial_v(const at::Tensor& x, const at::Tensor& n, at::Tensor& out) {
  evaluate(at::special_chebyshev_polynomial_v_out, x, n, out);
}
void chebyshev_polynomial_w(const at::Tensor& x, const at::Tensor& n, at::Tensor& out) {
  evaluate(at::special_chebyshev_polynomial_w_out, x, n, out);
}
void hermite_polynomial_h(const at::Tensor& x, const at::Tensor& n, at::Tensor& out) {
  evaluate(at::special_hermite_polynomial_h_out, x, n, out);
}
void hermite_polynomial_he(const at::Tensor& x, const at::Tensor& n, at::Tensor& out) {
  evaluate(at::special_hermite_polynomial_he_out, x, n, out);
}
void laguerre_polynomial_l(const at::Tensor& x, const at::Tensor& n, at::Tensor& out) {
  evaluate(at::special_laguerre_polynomial_l_out, x, n, out);
}
void legendre_polynomial_p(const at::Tensor& x, const at::Tensor& n, at::Tensor& out) {
  evaluate(at::special_legendre_polynomial_p_out, x, n, out);
}
void shifted_chebyshev_polynomial_t(const at::Tensor& x, const at::Tensor& n, at::Tensor& out) {
  evaluate(at::special_shifted_chebyshev_polynomial_t_out, x, n, out);
}
void shifted_chebyshev_polynomial_u(const at::Tensor& x, const at::Tensor& n, at::Tensor& out) {
  evaluate(at::special_shifted_chebyshev_polynomial_u_out, x, n, out);
}
void shifted_chebyshev_polynomial_v(const at::Tensor& x, const at::Tensor& n, at::Tensor& out) {
  evaluate(at::special_shifted_chebyshev_polynomial_v_out, x, n, out);
}
void shifted_chebyshev_polynomial_w(const at::Tensor& x, const at::Tensor& n, at::Tensor& out) {
  evaluate(at::special_shifted_chebyshev_polynomial_w_out, x, n, out);
}

}  // namespace softnpu::ops::kernels
