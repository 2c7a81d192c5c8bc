// LAPACK routines through the CPU kernels of ATen, in place, for batches of matrices in column-major order. `info` gets one
// number per matrix.
#include <ATen/native/BatchLinearAlgebra.h>
#include <ATen/native/LinearAlgebraUtils.h>
#include <ATen/ops/imag.h>
#include <ATen/ops/isfinite.h>

#include <algorithm>

#include "kernels.h"
#include "ops/kernels/cpu_stub.h"

namespace softnpu::ops::kernels {

// LAPACK is not called for empty matrices: `info` keeps its contents.

void potrf(at::Tensor& selfRef, bool upper, at::Tensor& info) {
  if (selfRef.numel() != 0) cpu_kernel(at::native::cholesky_stub)(selfRef, info, upper);
}

void potri(at::Tensor& selfRef, bool upper, at::Tensor& info) {
  if (selfRef.numel() != 0) cpu_kernel(at::native::cholesky_inverse_stub)(selfRef, info, upper);
}

void geqrf(at::Tensor& selfRef, at::Tensor& tau) {
  if (selfRef.numel() != 0) cpu_kernel(at::native::geqrf_stub)(selfRef, tau);
}

void orgqr(at::Tensor& selfRef, const at::Tensor& tau) {
  if (selfRef.numel() != 0) cpu_kernel(at::native::orgqr_stub)(selfRef, tau);
}

void ormqr(const at::Tensor& self, const at::Tensor& tau, at::Tensor& otherRef, bool left, bool transpose) {
  if (self.numel() == 0 || otherRef.numel() == 0) return;
  cpu_kernel(at::native::ormqr_stub)(self, tau, otherRef, left, transpose);
}

void geev(const at::Tensor& self, bool computeVectors, at::Tensor& values, at::Tensor& vectors, at::Tensor& info) {
  if (self.numel() == 0) return;
  // LAPACK writes outside of its arrays for some matrices that are not finite.
  TORCH_CHECK(at::isfinite(self).all().item<bool>(), "a matrix with infinite or NaN elements has no eigenvalues");
  cpu_kernel(at::native::linalg_eig_stub)(values, vectors, info, self, computeVectors);
}

// LAPACK returns a pair of conjugate eigenvectors as a column of real parts and a column of imaginary parts.
void eigenvectors(const at::Tensor& values, const at::Tensor& realVectors, at::Tensor& vectors) {
  if (values.numel() == 0) return;
  const at::Tensor parts = at::imag(values).to(at::kDouble).contiguous();
  const int64_t count = values.size(-1);
  for (int64_t i = 0; i < parts.numel(); ++i) {
    const double* part = parts.const_data_ptr<double>() + i;
    if (*part == 0) continue;
    TORCH_CHECK(i % count + 1 < count && part[1] == -part[0], "eigenvalue ", i % count,
                " and the next one are not a conjugate pair");
    ++i;
  }
  cpu_kernel(at::native::linalg_eig_make_complex_eigenvectors_stub)(vectors, values, realVectors);
}

void syevd(at::Tensor& selfRef, bool upper, bool computeVectors, at::Tensor& values, at::Tensor& info) {
  if (selfRef.numel() != 0) cpu_kernel(at::native::linalg_eigh_stub)(values, selfRef, info, upper, computeVectors);
}

void lstsq(at::Tensor& selfRef, at::Tensor& otherRef, double rcond, std::string_view driver, at::Tensor& rank,
           at::Tensor& singularValues, at::Tensor& info) {
  if (selfRef.numel() == 0 || otherRef.numel() == 0) {
    if (driver != "gels") rank.zero_();
    return;
  }
  const bool by_svd = driver == "gelsd" || driver == "gelss";
  TORCH_CHECK(by_svd || driver == "gels" || driver == "gelsy", "the driver is gels, gelsy, gelsd or gelss, not ", driver);
  const int64_t matrices = at::native::batchCount(selfRef);
  const int64_t singular = matrices * std::min(selfRef.size(-2), selfRef.size(-1));
  TORCH_CHECK(driver == "gels" || (rank.scalar_type() == at::kLong && rank.is_contiguous() && rank.numel() == matrices),
              "rank has to be int64 and dense, with a number for each of ", matrices, " matrices");
  const bool has_room = singularValues.scalar_type() == c10::toRealValueType(selfRef.scalar_type()) &&
                        singularValues.is_contiguous() && singularValues.numel() == singular;
  TORCH_CHECK(!by_svd || has_room, "singularValues have to be real, dense and ", singular, " numbers");
  cpu_kernel(at::native::lstsq_stub)(selfRef, otherRef, rank, singularValues, info, rcond, std::string(driver));
}

}  // namespace softnpu::ops::kernels
