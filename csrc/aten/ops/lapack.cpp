// Factorisations by PyTorch's own functions, which check arguments and allocate results on any device. They call LAPACK's
// routines through stubs; this file registers device calls as stubs.
#include <ATen/native/BatchLinearAlgebra.h>
#include <ATen/native/LinearAlgebraUtils.h>
#include <ATen/ops/_linalg_check_errors.h>
#include <ATen/ops/_linalg_eigh_native.h>
#include <ATen/ops/_linalg_eigvals_native.h>
#include <ATen/ops/cholesky_inverse_native.h>
#include <ATen/ops/cholesky_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/geqrf_native.h>
#include <ATen/ops/linalg_eig_native.h>
#include <ATen/ops/linalg_eigvals_native.h>
#include <ATen/ops/linalg_householder_product_native.h>
#include <ATen/ops/linalg_lstsq_native.h>
#include <ATen/ops/ormqr_native.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include <limits>

#include "aten/machinery/allocate.h"
#include "aten/machinery/device_check.h"
#include "aten/machinery/device_scope.h"
#include "aten/machinery/structured.h"
#include "plugin/calls.h"

namespace torch_npu {
namespace {

// ---- stubs ----

void cholesky(const at::Tensor& matrix, const at::Tensor& info, bool upper) {
  const DeviceScope scope(matrix);
  call::aclnnSoftPotrf(matrix, upper, info);
}

// PyTorch expects these error codes on the CPU.
at::Tensor& cholesky_inverse(at::Tensor& matrix, at::Tensor& info, bool upper) {
  const DeviceScope scope(matrix);
  const at::Tensor codes = at::zeros_like(info, matrix.device());
  call::aclnnSoftPotri(matrix, upper, codes);
  info.copy_(codes);
  return matrix;
}

void geqrf(const at::Tensor& matrix, const at::Tensor& tau) {
  const DeviceScope scope(matrix);
  call::aclnnSoftGeqrf(matrix, tau);
}

at::Tensor& orgqr(at::Tensor& matrix, const at::Tensor& tau) {
  const DeviceScope scope(matrix);
  call::aclnnSoftOrgqr(matrix, tau);
  return matrix;
}

void ormqr(const at::Tensor& reflectors, const at::Tensor& tau, const at::Tensor& other, bool left, bool transpose) {
  const DeviceScope scope(other);
  call::aclnnSoftOrmqr(reflectors, tau, other, left, transpose);
}

void eig(at::Tensor& values, at::Tensor& vectors, at::Tensor& info, const at::Tensor& matrix, bool compute_vectors) {
  const DeviceScope scope(matrix);
  call::aclnnSoftGeev(matrix, compute_vectors, values, vectors, info);
}

void complex_eigenvectors(const at::Tensor& vectors, const at::Tensor& values, const at::Tensor& real_vectors) {
  const DeviceScope scope(vectors);
  call::aclnnSoftEigenvectors(values, real_vectors, vectors);
}

void eigh(const at::Tensor& values, const at::Tensor& vectors, const at::Tensor& info, bool upper, bool compute_vectors) {
  const DeviceScope scope(vectors);
  call::aclnnSoftSyevd(vectors, upper, compute_vectors, values, info);
}

void lstsq(const at::Tensor& matrix, at::Tensor& other, at::Tensor& rank, at::Tensor& singular_values, at::Tensor& info,
           double rcond, std::string driver) {
  const DeviceScope scope(matrix);
  call::aclnnSoftLstsq(matrix, other, rcond, driver.c_str(), rank, singular_values, info);
}

// ---- eigenvalues of symmetric matrices ----

template <class Op>
void run_eigh(Op& op, const at::Tensor& A, std::string_view triangle, bool compute_vectors) {
  op.meta(A, triangle, compute_vectors);
  op.impl(A, triangle, compute_vectors, op.output(0), op.output(1));
}

std::tuple<at::Tensor, at::Tensor> linalg_eigh(const at::Tensor& A, std::string_view triangle, bool compute_vectors) {
  const DeviceScope scope(A);
  Functional<at::native::structured__linalg_eigh_out, 2> op;
  run_eigh(op, A, triangle, compute_vectors);
  return {std::move(op.take(0)), std::move(op.take(1))};
}

std::tuple<at::Tensor&, at::Tensor&> linalg_eigh_out(const at::Tensor& A, std::string_view triangle, bool compute_vectors,
                                                     at::Tensor& values, at::Tensor& vectors) {
  const DeviceScope scope(A);
  Into<at::native::structured__linalg_eigh_out, 2, Form::kOut> op({values, vectors});
  run_eigh(op, A, triangle, compute_vectors);
  op.finish();
  return {values, vectors};
}

// ---- least squares ----

using Results4 = std::tuple<at::Tensor&, at::Tensor&, at::Tensor&, at::Tensor&>;
using OptionalName = std::optional<std::string_view>;

void give(at::Tensor& out, const at::Tensor& result) {
  if (out.numel() == 0 && out.scalar_type() == result.scalar_type()) {
    out.set_(result);
    return;
  }
  store(result, out);
}

void check_lstsq(const at::Tensor& input, const at::Tensor& other) {
  TORCH_CHECK(input.dim() >= 2, "torch.linalg.lstsq: input must have at least 2 dimensions.");
  TORCH_CHECK(other.dim() >= 1, "torch.linalg.lstsq: other must have at least 1 dimension.");
  TORCH_CHECK(input.scalar_type() == other.scalar_type(), "torch.linalg.lstsq: Expected input and other to have the same dtype, ",
              "but got input's dtype ", input.scalar_type(), " and other's dtype ", other.scalar_type());
  TORCH_CHECK(input.dim() == other.dim() || input.dim() == other.dim() + 1, "torch.linalg.lstsq: input.dim() must be greater or ",
              "equal to other.dim() and (input.dim() - other.dim()) <= 1");
  const int64_t rows = at::native::linalg_solve_is_vector_rhs(input, other) ? -1 : -2;
  TORCH_CHECK(input.size(-2) == other.size(rows), "torch.linalg.lstsq: input.size(-2) should match other.size(", rows, ")");
  at::native::checkSameDevice("torch.linalg.lstsq", other, input, "other");
}

// Least squares by SVD, which PyTorch's own function supports on the CPU only.
Results4 lstsq_by_singular_values(const at::Tensor& input, const at::Tensor& other, std::optional<double> rcond,
                                  const std::string& driver, at::Tensor& solution, at::Tensor& residuals, at::Tensor& rank,
                                  at::Tensor& singular_values) {
  const int64_t rows = input.size(-2), columns = input.size(-1);
  const bool is_vector = at::native::linalg_solve_is_vector_rhs(input, other);
  const at::Tensor right = is_vector ? other.unsqueeze(-1) : other;
  const at::ScalarType real = c10::toRealValueType(input.scalar_type());
  at::DimVector batch(input.sizes().slice(0, static_cast<size_t>(input.dim() - 2)));
  const at::Tensor ranks = at::empty(batch, input.options().dtype(at::kLong));
  const at::Tensor info = at::zeros({std::max<int64_t>(1, at::native::batchCount(input))}, input.options().dtype(at::kInt));
  at::DimVector shape(at::native::broadcast_batch_size(input, right, input.dim() - 2));
  batch.push_back(std::min(rows, columns));
  const at::Tensor values = at::empty(batch, input.options().dtype(real));
  shape.append({right.size(-1), std::max(rows, columns)});
  const at::Tensor work = at::zeros(shape, input.options()).mT();
  work.narrow(-2, 0, rows).copy_(right);
  const double epsilon = real == at::kDouble ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon();
  const double threshold = rcond.value_or(epsilon * static_cast<double>(std::max(rows, columns)));
  call::aclnnSoftLstsq(at::native::cloneBatchedColumnMajor(input), work, threshold, driver.c_str(), ranks, values, info);
  at::_linalg_check_errors(info, "torch.linalg.lstsq", info.numel() <= 1);
  at::Tensor rest = at::empty({0}, input.options().dtype(real));
  if (rows > columns && ranks.eq(columns).all().item<bool>()) {
    rest = work.narrow(-2, columns, rows - columns).abs().square_().sum(-2);
  }
  const at::Tensor found = work.narrow(-2, 0, columns);
  give(solution, is_vector ? found.squeeze(-1) : found);
  give(residuals, rest);
  give(rank, ranks);
  give(singular_values, values);
  return {solution, residuals, rank, singular_values};
}

Results4 linalg_lstsq_out(const at::Tensor& input, const at::Tensor& other, std::optional<double> rcond, OptionalName driver,
                          at::Tensor& solution, at::Tensor& residuals, at::Tensor& rank, at::Tensor& singular_values) {
  const DeviceScope scope(input);
  std::string name(driver.value_or("gelsy"));
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char letter) { return std::tolower(letter); });
  if (name == "gels" || name == "gelsy") {  // gelsy is the default
    if (name == "gelsy") driver = std::nullopt;
    return at::native::linalg_lstsq_out(input, other, rcond, driver, solution, residuals, rank, singular_values);
  }
  if (name == "gelsd" || name == "gelss") {
    check_lstsq(input, other);
    const at::ScalarType real = c10::toRealValueType(input.scalar_type());
    at::native::checkLinalgCompatibleDtype("torch.linalg.lstsq", solution, input, "solution");
    at::native::checkLinalgCompatibleDtype("torch.linalg.lstsq", residuals.scalar_type(), real, "solution");
    at::native::checkLinalgCompatibleDtype("torch.linalg.lstsq", rank.scalar_type(), at::kLong, "rank");
    at::native::checkLinalgCompatibleDtype("torch.linalg.lstsq", singular_values.scalar_type(), real, "singular_values");
    return lstsq_by_singular_values(input, other, rcond, name, solution, residuals, rank, singular_values);
  }
  TORCH_CHECK(false, "torch.linalg.lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)");
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("cholesky", TORCH_FN(DeviceChecked<&at::native::cholesky>::call));
  m.impl("cholesky.out", TORCH_FN(DeviceChecked<&at::native::cholesky_out>::call));
  m.impl("cholesky_inverse", TORCH_FN(DeviceChecked<&at::native::cholesky_inverse>::call));
  m.impl("cholesky_inverse.out", TORCH_FN(DeviceChecked<&at::native::cholesky_inverse_out>::call));
  m.impl("geqrf", TORCH_FN(DeviceChecked<&at::native::geqrf>::call));
  m.impl("geqrf.a", TORCH_FN(DeviceChecked<&at::native::geqrf_out>::call));
  m.impl("linalg_householder_product", TORCH_FN(DeviceChecked<&at::native::linalg_householder_product>::call));
  m.impl("linalg_householder_product.out", TORCH_FN(DeviceChecked<&at::native::linalg_householder_product_out>::call));
  m.impl("ormqr", TORCH_FN(DeviceChecked<&at::native::ormqr>::call));
  m.impl("ormqr.out", TORCH_FN(DeviceChecked<&at::native::ormqr_out>::call));
  m.impl("linalg_eig", TORCH_FN(DeviceChecked<&at::native::linalg_eig>::call));
  m.impl("linalg_eig.out", TORCH_FN(DeviceChecked<&at::native::linalg_eig_out>::call));
  m.impl("_linalg_eigvals", TORCH_FN(DeviceChecked<&at::native::_linalg_eigvals>::call));
  m.impl("linalg_eigvals.out", TORCH_FN(DeviceChecked<&at::native::linalg_eigvals_out>::call));
  m.impl("_linalg_eigh", TORCH_FN(DeviceChecked<&linalg_eigh>::call));
  m.impl("_linalg_eigh.eigenvalues", TORCH_FN(DeviceChecked<&linalg_eigh_out>::call));
  m.impl("linalg_lstsq.out", TORCH_FN(DeviceChecked<&linalg_lstsq_out>::call));
}

}  // namespace torch_npu

namespace at::native {

REGISTER_PRIVATEUSE1_DISPATCH(cholesky_stub, &torch_npu::cholesky)
REGISTER_PRIVATEUSE1_DISPATCH(cholesky_inverse_stub, &torch_npu::cholesky_inverse)
REGISTER_PRIVATEUSE1_DISPATCH(geqrf_stub, &torch_npu::geqrf)
REGISTER_PRIVATEUSE1_DISPATCH(orgqr_stub, &torch_npu::orgqr)
REGISTER_PRIVATEUSE1_DISPATCH(ormqr_stub, &torch_npu::ormqr)
REGISTER_PRIVATEUSE1_DISPATCH(linalg_eig_stub, &torch_npu::eig)
REGISTER_PRIVATEUSE1_DISPATCH(linalg_eig_make_complex_eigenvectors_stub, &torch_npu::complex_eigenvectors)
REGISTER_PRIVATEUSE1_DISPATCH(linalg_eigh_stub, &torch_npu::eigh)
REGISTER_PRIVATEUSE1_DISPATCH(lstsq_stub, &torch_npu::lstsq)

}  // namespace at::native
