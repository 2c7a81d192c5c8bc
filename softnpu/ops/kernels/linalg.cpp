#include <ATen/ops/_linalg_svd.h>
#include <ATen/ops/linalg_qr.h>

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

// `v` holds the right singular vectors as columns, ATen gives them as rows of the adjoint.
void svd(const at::Tensor& input, bool fullMatrices, bool computeUV, at::Tensor& sigma, at::Tensor& u, at::Tensor& v) {
  const auto [left, values, right] = at::_linalg_svd(input, fullMatrices, computeUV);
  sigma.copy_(values);
  if (!computeUV) return;
  u.copy_(left);
  v.copy_(right.mH());
}

}  // namespace softnpu::ops::kernels
