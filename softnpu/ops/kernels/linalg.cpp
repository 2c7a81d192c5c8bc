#include <ATen/ops/_linalg_svd.h>
#include <ATen/ops/all.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/linalg_qr.h>

#include <limits>

#include "kernels.h"

namespace softnpu::ops::kernels {

// How aclnnLinalgQr spells a mode.
enum QrMode : int64_t { kReduced, kComplete, kOnlyR };

void linalg_qr(const at::Tensor& self, int64_t mode, at::Tensor& Q, at::Tensor& R) {
  TORCH_CHECK(mode >= kReduced && mode <= kOnlyR, "mode has to be 0 (reduced), 1 (complete) or 2 (r), it is ", mode);
  const auto [factor, triangle] = at::linalg_qr(self, mode == kReduced ? "reduced" : mode == kComplete ? "complete" : "r");
  if (mode != kOnlyR) Q.copy_(factor);
  R.copy_(triangle);
}

// `v` holds the right singular vectors as columns, ATen gives them as rows of the adjoint. If a matrix is not finite, its
// singular values are NaN, and nothing else is computed.
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

}  // namespace softnpu::ops::kernels
