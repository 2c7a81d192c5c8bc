#include <ATen/ExpandUtils.h>
#include <ATen/ops/_cdist_backward.h>
#include <ATen/ops/_linalg_svd.h>
#include <ATen/ops/all.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/linalg_ldl_solve.h>
#include <ATen/ops/linalg_lu_solve.h>
#include <ATen/ops/linalg_qr.h>
#include <ATen/ops/lu_unpack.h>

#include <limits>

#include "kernels.h"
#include "ops/kernels/bounds.h"

namespace softnpu::ops::kernels {

// The modes of aclnnLinalgQr.
enum QrMode : int64_t { kReduced, kComplete, kOnlyR };

void linalg_qr(const at::Tensor& self, int64_t mode, at::Tensor& Q, at::Tensor& R) {
  TORCH_CHECK(mode >= kReduced && mode <= kOnlyR, "mode has to be 0 (reduced), 1 (complete) or 2 (r), it is ", mode);
  const auto [factor, triangle] = at::linalg_qr(self, mode == kReduced ? "reduced" : mode == kComplete ? "complete" : "r");
  if (mode != kOnlyR) Q.copy_(factor);
  R.copy_(triangle);
}

// `v` holds the right singular vectors as columns. ATen returns them as rows of the adjoint. If a matrix is not finite, its
// singular values are NaN and its vectors are not computed.
void svd(const at::Tensor& input, bool fullMatrices, bool computeUV, at::Tensor& sigma, at::Tensor& u, at::Tensor& v) {
  const at::Tensor finite = at::isfinite(input).all(-1).all(-1, /*keepdim=*/true);
  if (!at::all(finite).item<bool>()) {
    sigma.zero_().masked_fill_(finite.logical_not(), std::numeric_limits<double>::quiet_NaN());
    return;
  }
  const auto [left, values, right] = at::_linalg_svd(input, fullMatrices, computeUV);
  sigma.copy_(values);
  if (!computeUV) return;
  u.copy_(left);
  v.copy_(right.mH());
}

void lu_unpack(const at::Tensor& LUData, const at::Tensor& LUPivots, bool unpackData, bool unpackPivots, at::Tensor& P,
               at::Tensor& L, at::Tensor& U) {
  if (unpackPivots) check_bounds(LUPivots, LUData.size(-2) + 1, /*first=*/1);
  at::lu_unpack_out(P, L, U, LUData, LUPivots, unpackData, unpackPivots);
}

namespace {

// Expands the batch dimensions of a tensor. Its last `rank` dimensions stay.
at::Tensor with_batch(const at::Tensor& tensor, const std::vector<int64_t>& batch, int64_t rank) {
  std::vector<int64_t> sizes = batch;
  sizes.insert(sizes.end(), tensor.sizes().end() - rank, tensor.sizes().end());
  return tensor.expand(sizes).contiguous();
}

// ATen's kernels read outside of factors that broadcast.
std::vector<int64_t> common_batch(const at::Tensor& a, const at::Tensor& b) {
  return at::infer_size(a.sizes().slice(0, size_t(a.dim()) - 2), b.sizes().slice(0, size_t(b.dim()) - 2));
}

}  // namespace

// Pivots of LAPACK count from 1. Those of a Bunch-Kaufman factorisation are negative for a block of two rows.

void lu_solve(const at::Tensor& LU, const at::Tensor& pivots, const at::Tensor& B, bool left, bool adjoint, at::Tensor& out) {
  check_bounds(pivots, LU.size(-1) + 1, /*first=*/1);
  const std::vector<int64_t> batch = common_batch(LU, B);
  at::linalg_lu_solve_out(out, with_batch(LU, batch, 2), with_batch(pivots, batch, 1), with_batch(B, batch, 2), left, adjoint);
}

void ldl_solve(const at::Tensor& LD, const at::Tensor& pivots, const at::Tensor& B, bool hermitian, at::Tensor& out) {
  check_bounds(pivots.abs(), LD.size(-1) + 1, /*first=*/1);
  const std::vector<int64_t> batch = common_batch(LD, B);
  at::linalg_ldl_solve_out(out, with_batch(LD, batch, 2), with_batch(pivots, batch, 1), with_batch(B, batch, 2), hermitian);
}

// The batches of x1 and x2 may broadcast. The distances must have the common batch.
void cdist_backward(const at::Tensor& grad, const at::Tensor& x1, const at::Tensor& x2, const at::Tensor& cdist, double p,
                    at::Tensor& out) {
  std::vector<int64_t> sizes =
      at::infer_size(x1.sizes().slice(0, size_t(x1.dim()) - 2), x2.sizes().slice(0, size_t(x2.dim()) - 2));
  sizes.insert(sizes.end(), {x1.size(-2), x2.size(-2)});
  TORCH_CHECK(grad.sizes() == sizes, "gradients of shape ", grad.sizes(), " are given for distances of shape ",
              at::IntArrayRef(sizes));
  out.copy_(at::_cdist_backward(grad, x1, x2, p, cdist));
}

}  // namespace softnpu::ops::kernels
