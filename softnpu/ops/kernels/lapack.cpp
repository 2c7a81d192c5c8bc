// LAPACK's routines as ATen's CPU kernels offer them: batches of matrices by columns, in place. `info` gets one number per
// matrix.
#include <ATen/native/BatchLinearAlgebra.h>

#include "kernels.h"
#include "ops/kernels/cpu_stub.h"

namespace softnpu::ops::kernels {

void potrf(at::Tensor& selfRef, bool upper, at::Tensor& info) { cpu_kernel(at::native::cholesky_stub)(selfRef, info, upper); }

void potri(at::Tensor& selfRef, bool upper, at::Tensor& info) {
  cpu_kernel(at::native::cholesky_inverse_stub)(selfRef, info, upper);
}

void geqrf(at::Tensor& selfRef, at::Tensor& tau) { cpu_kernel(at::native::geqrf_stub)(selfRef, tau); }

void orgqr(at::Tensor& selfRef, const at::Tensor& tau) { cpu_kernel(at::native::orgqr_stub)(selfRef, tau); }

void ormqr(const at::Tensor& self, const at::Tensor& tau, at::Tensor& otherRef, bool left, bool transpose) {
  cpu_kernel(at::native::ormqr_stub)(self, tau, otherRef, left, transpose);
}

void geev(const at::Tensor& self, bool computeVectors, at::Tensor& values, at::Tensor& vectors, at::Tensor& info) {
  cpu_kernel(at::native::linalg_eig_stub)(values, vectors, info, self, computeVectors);
}

// LAPACK gives a pair of conjugate eigenvectors as a column of real and a column of imaginary parts.
void eigenvectors(const at::Tensor& values, const at::Tensor& realVectors, at::Tensor& vectors) {
  cpu_kernel(at::native::linalg_eig_make_complex_eigenvectors_stub)(vectors, values, realVectors);
}

void syevd(at::Tensor& selfRef, bool upper, bool computeVectors, at::Tensor& values, at::Tensor& info) {
  cpu_kernel(at::native::linalg_eigh_stub)(values, selfRef, info, upper, computeVectors);
}

void lstsq(at::Tensor& selfRef, at::Tensor& otherRef, double rcond, std::string_view driver, at::Tensor& rank,
           at::Tensor& singularValues, at::Tensor& info) {
  cpu_kernel(at::native::lstsq_stub)(selfRef, otherRef, rank, singularValues, info, rcond, std::string(driver));
}

}  // namespace softnpu::ops::kernels
