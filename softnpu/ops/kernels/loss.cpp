#include <ATen/core/Reduction.h>
#include <ATen/ops/_ctc_loss.h>
#include <ATen/ops/_ctc_loss_backward.h>
#include <ATen/ops/huber_loss_backward.h>
#include <ATen/ops/nll_loss2d_backward.h>
#include <ATen/ops/nll_loss_backward.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/sign.h>
#include <ATen/ops/sub.h>

#include <algorithm>

#include "kernels.h"
#include "ops/kernels/bounds.h"

namespace softnpu::ops::kernels {

namespace {

// Targets are the rows of a matrix, or one after the other in a vector.
void check_lengths(const at::Tensor& log_probs, const at::Tensor& targets, at::IntArrayRef input_lengths,
                   at::IntArrayRef target_lengths, const at::Tensor& log_alpha) {
  check_bounds(targets, log_probs.size(2));
  const int64_t room = targets.dim() == 2 ? targets.size(1) : targets.size(0);
  int64_t sum = 0;
  for (size_t i = 0; i < target_lengths.size(); ++i) {
    TORCH_CHECK(input_lengths[i] <= log_probs.size(0), "input length ", input_lengths[i], " is larger than ", log_probs.size(0));
    sum = targets.dim() == 2 ? target_lengths[i] : sum + std::min(target_lengths[i], room + 1);
    TORCH_CHECK(sum <= room, "the targets have ", room, " elements, fewer than the lengths ", target_lengths, " say");
    TORCH_CHECK(2 * target_lengths[i] < log_alpha.size(2), "logAlpha of shape ", log_alpha.sizes(),
                " has no room for a target of ", target_lengths[i]);
  }
}

}  // namespace

void ctc_loss(const at::Tensor& logProbs, const at::Tensor& targets, at::IntArrayRef inputLengths, at::IntArrayRef targetlengths,
              int64_t blank, bool zeroInfinity, at::Tensor& negLogLikelihoodOut, at::Tensor& logAlphaOut) {
  check_lengths(logProbs, targets, inputLengths, targetlengths, logAlphaOut);
  const auto [loss, log_alpha] = at::_ctc_loss(logProbs, targets, inputLengths, targetlengths, blank, zeroInfinity);
  negLogLikelihoodOut.copy_(loss);
  logAlphaOut.copy_(log_alpha);
}

void ctc_loss_backward(const at::Tensor& gradOut, const at::Tensor& logProbs, const at::Tensor& targets,
                       at::IntArrayRef inputLengths, at::IntArrayRef targetLengths, const at::Tensor& negLogLikelihood,
                       const at::Tensor& logAlpha, int64_t blank, bool zeroInfinity, at::Tensor& out) {
  check_lengths(logProbs, targets, inputLengths, targetLengths, logAlpha);
  out.copy_(at::_ctc_loss_backward(gradOut, logProbs, targets, inputLengths, targetLengths, negLogLikelihood, logAlpha, blank,
                                   zeroInfinity));
}

// ATen checks targets only in the forward pass.
void nll_loss_backward(const at::Tensor& gradOutput, const at::Tensor& self, const at::Tensor& target,
                       const std::optional<at::Tensor>& weight, int64_t reduction, int64_t ignoreIndex,
                       const at::Tensor& totalWeight, at::Tensor& out) {
  check_bounds(target.masked_fill(target.eq(ignoreIndex), 0), self.size(-1));
  at::nll_loss_backward_out(out, gradOutput, self, target, weight, reduction, ignoreIndex, totalWeight);
}

void nll_loss2d_backward(const at::Tensor& gradOutput, const at::Tensor& self, const at::Tensor& target,
                         const std::optional<at::Tensor>& weight, int64_t reduction, int64_t ignoreIndex,
                         const at::Tensor& totalWeight, at::Tensor& out) {
  check_bounds(target.masked_fill(target.eq(ignoreIndex), 0), self.size(1));
  at::nll_loss2d_backward_out(out, gradOutput, self, target, weight, reduction, ignoreIndex, totalWeight);
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

// The derivative of (1 - y) * x + (1 + (p - 1) * y) * log(1 + exp(-x)), in a form without overflow.
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
