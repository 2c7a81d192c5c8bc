// QR, SVD, triangular systems, and sums of matrices. Factorisations with error codes are in ops.yaml or lapack.cpp.
#include <ATen/native/LinearAlgebraUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_linalg_check_errors.h>
#include <ATen/ops/_linalg_svd_meta.h>
#include <ATen/ops/addr_native.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/linalg_qr_meta.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include "aten/machinery/device_check.h"
#include "aten/machinery/device_scope.h"
#include "aten/machinery/structured.h"
#include "plugin/calls.h"

namespace torch_npu {
namespace {

using OptionalName = std::optional<std::string_view>;

// ---- QR ----

enum QrMode : int64_t { kReduced, kComplete, kOnlyR };

template <class Op>
void run_qr(Op& op, const at::Tensor& A, std::string_view mode) {
  op.meta(A, mode);
  const QrMode code = mode == "reduced" ? kReduced : mode == "complete" ? kComplete : kOnlyR;
  if (op.output(1).numel() > 0 || op.output(0).numel() > 0) call::aclnnLinalgQr(A, code, op.output(0), op.output(1));
}

std::tuple<at::Tensor, at::Tensor> linalg_qr(const at::Tensor& A, std::string_view mode) {
  const DeviceScope scope(A);
  Functional<at::meta::structured_linalg_qr, 2> op;
  run_qr(op, A, mode);
  return {std::move(op.take(0)), std::move(op.take(1))};
}

std::tuple<at::Tensor&, at::Tensor&> linalg_qr_out(const at::Tensor& A, std::string_view mode, at::Tensor& Q, at::Tensor& R) {
  const DeviceScope scope(A);
  Into<at::meta::structured_linalg_qr, 2, Form::kOut> op({Q, R});
  run_qr(op, A, mode);
  op.finish();
  return {Q, R};
}

// ---- SVD ----

// The device returns the right singular vectors as columns; ATen's Vh is the transposed view. It returns NaN for the singular
// values of a matrix that is not finite, which is LAPACK's error -4.
template <class Op>
void run_svd(Op& op, const at::Tensor& A, bool full_matrices, bool compute_uv, OptionalName driver) {
  TORCH_CHECK(!driver.has_value(),
              "torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER backend.");
  op.meta(A, full_matrices, compute_uv, driver);
  const at::Tensor& rows = op.output(2);
  call::aclnnSvd(A, full_matrices, compute_uv, op.output(1), op.output(0), compute_uv ? rows.mT() : rows);
  if (A.numel() == 0) return;
  const at::Tensor failed = at::isnan(op.output(1)).any(-1);
  at::_linalg_check_errors(failed.to(at::kInt).mul_(-4), "linalg.svd", A.dim() == 2);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> linalg_svd(const at::Tensor& A, bool full_matrices, bool compute_uv,
                                                          OptionalName driver) {
  const DeviceScope scope(A);
  Functional<at::meta::structured__linalg_svd, 3> op;
  run_svd(op, A, full_matrices, compute_uv, driver);
  if (compute_uv && A.is_complex()) op.take(2).copy_(op.output(2).conj());
  return {std::move(op.take(0)), std::move(op.take(1)), std::move(op.take(2))};
}

std::tuple<at::Tensor&, at::Tensor&, at::Tensor&> linalg_svd_out(const at::Tensor& A, bool full_matrices, bool compute_uv,
                                                                 OptionalName driver, at::Tensor& U, at::Tensor& S,
                                                                 at::Tensor& Vh) {
  const DeviceScope scope(A);
  Into<at::meta::structured__linalg_svd, 3, Form::kOut> op({U, S, Vh});
  run_svd(op, A, full_matrices, compute_uv, driver);
  op.finish();
  if (compute_uv && A.is_complex()) Vh.copy_(Vh.conj());
  return {U, S, Vh};
}

// ---- triangular systems ----

// XA = B is solved as the transposed system. The result is column-major, as with LAPACK and PyTorch.
at::Tensor solve_triangular(const at::Tensor& A, const at::Tensor& B, bool upper, bool left, bool unitriangular) {
  at::native::checkInputsSolver(A, B, left, "linalg.solve_triangular");
  const DeviceScope scope(A, B);
  const auto [a, b] = at::native::_linalg_broadcast_batch_dims(A, B, /*name=*/nullptr);
  const at::Tensor factor = empty(a.sizes(), a.dtype());
  at::Tensor out = empty(b.mT().sizes(), b.dtype()).mT();
  if (left) {
    call::aclnnTriangularSolve(b, a, upper, /*transpose=*/false, unitriangular, out, factor);
  } else {
    call::aclnnTriangularSolve(b.mT(), a.mT(), !upper, /*transpose=*/false, unitriangular, out.mT(), factor);
  }
  return out;
}

at::Tensor& solve_triangular_out(const at::Tensor& A, const at::Tensor& B, bool upper, bool left, bool unitriangular,
                                 at::Tensor& out) {
  const at::Tensor result = solve_triangular(A, B, upper, left, unitriangular);
  TORCH_CHECK(out.scalar_type() == result.scalar_type(), "expected scalar type ", result.scalar_type(), " but found ",
              out.scalar_type());
  resize_output(out, result.sizes(), {}, result.options());
  return out.copy_(result);
}

// ---- sums of matrices ----

// Adds to `out`, as the CPU does.
at::Tensor& linear_combination_out(const at::Tensor& input, const at::Tensor& coefficients, at::Tensor& out) {
  const DeviceScope scope(input, coefficients);
  call::aclnnSoftLinearCombination(input, coefficients, out);
  return out;
}

at::Tensor linear_combination(const at::Tensor& input, const at::Tensor& coefficients) {
  TORCH_CHECK(input.dim() > 0 && coefficients.dim() == 2 && coefficients.size(1) == input.size(0), "coefficients of shape ",
              coefficients.sizes(), " do not fit ", input.sizes());
  c10::SmallVector<int64_t, 6> sizes(input.sizes());
  sizes[0] = coefficients.size(0);
  at::Tensor out = at::zeros(sizes, input.options());
  return linear_combination_out(input, coefficients, out);
}

// In place self has to be a matrix.
at::Tensor& addr_out(const at::Tensor& self, const at::Tensor& vec1, const at::Tensor& vec2, const at::Scalar& beta,
                     const at::Scalar& alpha, at::Tensor& out) {
  TORCH_CHECK(!self.is_same(out) || self.dim() == 2, "2D tensor expected, got ", self.dim(), "D tensor for input");
  return at::native::math_addr_out(self, vec1, vec2, beta, alpha, out);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("linalg_qr", TORCH_FN(DeviceChecked<&linalg_qr>::call));
  m.impl("linalg_qr.out", TORCH_FN(DeviceChecked<&linalg_qr_out>::call));
  m.impl("_linalg_svd", TORCH_FN(DeviceChecked<&linalg_svd>::call));
  m.impl("_linalg_svd.U", TORCH_FN(DeviceChecked<&linalg_svd_out>::call));
  m.impl("linalg_solve_triangular", TORCH_FN(DeviceChecked<&solve_triangular>::call));
  m.impl("linalg_solve_triangular.out", TORCH_FN(DeviceChecked<&solve_triangular_out>::call));
  m.impl("addr.out", TORCH_FN(DeviceChecked<&addr_out>::call));
  m.impl("_compute_linear_combination", TORCH_FN(DeviceChecked<&linear_combination>::call));
  m.impl("_compute_linear_combination.out", TORCH_FN(DeviceChecked<&linear_combination_out>::call));
}

}  // namespace torch_npu
