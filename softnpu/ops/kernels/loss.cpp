#include <ATen/core/Reduction.h>
#include <ATen/ops/_ctc_loss.h>
#include <ATen/ops/_ctc_loss_backward.h>
#include <ATen/ops/huber_loss_backward.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/sign.h>
#include <ATen/ops/sub.h>

#include "kernels.h"
#include "ops/kernels/bounds.h"

namespace softnpu::ops::kernels {

void ctc_loss(const at::Tensor& logProbs, const at::Tensor& targets, at::IntArrayRef inputLengths, at::IntArrayRef targetlengths,
              int64_t blank, bool zeroInfinity, at::Tensor& negLogLikelihoodOut, at::Tensor& logAlphaOut) {
  check_bounds(targets, logProbs.size(2));
  const auto [loss, log_alpha] = at::_ctc_loss(logProbs, targets, inputLengths, targetlengths, blank, zeroInfinity);
  negLogLikelihoodOut.copy_(loss);
  logAlphaOut.copy_(log_alpha);
}

void ctc_loss_backward(const at::Tensor& gradOut, const at::Tensor& logProbs, const at::Tensor& targets,
                       at::IntArrayRef inputLengths, at::IntArrayRef targetLengths, const at::Tensor& negLogLikelihood,
                       const at::Tensor& logAlpha, int64_t blank, bool zeroInfinity, at::Tensor& out) {
  check_bounds(targets, logProbs.size(2));
  out.copy_(at::_ctc_loss_backward(gradOut, logProbs, targets, inputLengths, targetLengths, negLogLikelihood, logAlpha, blank,
                                   zeroInfinity));
}

void l1_loss_backward(const at::Tensor& gradOutput, const at::Tensor& self, const at::Tensor& target, int64_t reduction,
                      at::Tensor& gradInput) {
  at::Tensor result = at::sign(self.sub(target)).mul_(gradOutput);
  if (reduction == at::Reduction::Mean) result.div_(result.numel());
  gradInput.copy_(result);
}

void huber_loss_backward(const at::Tensor& gradOutput, const at::Tensor& self, const at::Tensor& target, int64_t reduction,
                         double delta, at::Tensor& out) {
  at::huber_loss_backward_out(out, gradOutput, self, target, reduction, delta);
}

// The derivative of (1 - y) * x + (1 + (p - 1) * y) * log(1 + exp(-x)), written without a product that could overflow.
void bce_with_logits_backward(const at::Tensor& gradOutput, const at::Tensor& self, const at::Tensor& target,
                              const std::optional<at::Tensor>& weightOptional, const std::optional<at::Tensor>& posWeightOptional,
                              int64_t reduction, at::Tensor& out) {
  at::Tensor result;
  if (posWeightOptional) {
    const at::Tensor positive = posWeightOptional->mul(target);
    result = positive.add(1).sub_(target).mul_(at::sigmoid(self)).sub_(positive).mul_(gradOutput);
  } else {
    result = at::sigmoid(self).sub_(target).mul_(gradOutput);
  }
  if (weightOptional) result.mul_(*weightOptional);
  if (reduction == at::Reduction::Mean) result.div_(self.numel());
  out.copy_(result);
}

}  // namespace softnpu::ops::kernels
