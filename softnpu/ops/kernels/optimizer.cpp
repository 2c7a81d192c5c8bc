#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>
#include <ATen/ops/_amp_update_scale.h>
#include <ATen/ops/_fused_adagrad.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>

#include "kernels.h"

namespace softnpu::ops::kernels {

void amp_unscale(at::TensorList scaledGrads, at::Tensor& foundInf, const at::Tensor& invScale) {
  at::_amp_foreach_non_finite_check_and_unscale_(scaledGrads, foundInf, invScale);
}

// Callers give the same tensor as current and updated, or two.
void amp_update_scale(const at::Tensor& currentScale, const at::Tensor& growthTracker, const at::Tensor& foundInf,
                      double growthFactor, double backoffFactor, int64_t growthInterval, at::Tensor& updatedScale,
                      at::Tensor& updatedGrowthTracker) {
  if (updatedScale.data_ptr() != currentScale.data_ptr()) updatedScale.copy_(currentScale);
  if (updatedGrowthTracker.data_ptr() != growthTracker.data_ptr()) updatedGrowthTracker.copy_(growthTracker);
  at::_amp_update_scale_(updatedScale, updatedGrowthTracker, foundInf, growthFactor, backoffFactor, growthInterval);
}

void fused_adam(at::TensorList params, at::TensorList grads, at::TensorList expAvgs, at::TensorList expAvgSqs,
                at::TensorList maxExpAvgSqs, at::TensorList steps, double lr, double beta1, double beta2, double weightDecay,
                double eps, bool amsgrad, bool maximize, bool decoupled, const std::optional<at::Tensor>& gradScale,
                const std::optional<at::Tensor>& foundInf) {
  if (decoupled) {
    at::_fused_adamw_(params, grads, expAvgs, expAvgSqs, maxExpAvgSqs, steps, lr, beta1, beta2, weightDecay, eps, amsgrad,
                      maximize, gradScale, foundInf);
    return;
  }
  at::_fused_adam_(params, grads, expAvgs, expAvgSqs, maxExpAvgSqs, steps, lr, beta1, beta2, weightDecay, eps, amsgrad, maximize,
                   gradScale, foundInf);
}

void fused_adam_tensor_lr(at::TensorList params, at::TensorList grads, at::TensorList expAvgs, at::TensorList expAvgSqs,
                          at::TensorList maxExpAvgSqs, at::TensorList steps, const at::Tensor& lr, double beta1, double beta2,
                          double weightDecay, double eps, bool amsgrad, bool maximize, bool decoupled,
                          const std::optional<at::Tensor>& gradScale, const std::optional<at::Tensor>& foundInf) {
  fused_adam(params, grads, expAvgs, expAvgSqs, maxExpAvgSqs, steps, lr.item<double>(), beta1, beta2, weightDecay, eps, amsgrad,
             maximize, decoupled, gradScale, foundInf);
}

void apply_adamw(at::Tensor& varRef, at::Tensor& mRef, at::Tensor& vRef, const std::optional<at::Tensor>& maxGradNormOptionalRef,
                 const at::Tensor& grad, const at::Tensor& step, double lr, double beta1, double beta2, double weightDecay,
                 double eps, bool amsgrad, bool maximize) {
  const at::TensorList largest = amsgrad && maxGradNormOptionalRef ? at::TensorList(*maxGradNormOptionalRef) : at::TensorList();
  const at::Tensor steps = step.to(at::kFloat);
  fused_adam(varRef, grad, mRef, vRef, largest, steps, lr, beta1, beta2, weightDecay, eps, amsgrad, maximize, /*decoupled=*/true,
             {}, {});
}

void soft_fused_sgd(at::TensorList params, at::TensorList grads, at::TensorList momentumBuffers, double weightDecay,
                    double momentum, double lr, double dampening, bool nesterov, bool maximize, bool isFirstStep,
                    const std::optional<at::Tensor>& gradScale, const std::optional<at::Tensor>& foundInf) {
  at::_fused_sgd_(params, grads, momentumBuffers, weightDecay, momentum, lr, dampening, nesterov, maximize, isFirstStep,
                  gradScale, foundInf);
}

void fused_sgd_tensor_lr(at::TensorList params, at::TensorList grads, at::TensorList momentumBuffers, double weightDecay,
                         double momentum, const at::Tensor& lr, double dampening, bool nesterov, bool maximize, bool isFirstStep,
                         const std::optional<at::Tensor>& gradScale, const std::optional<at::Tensor>& foundInf) {
  soft_fused_sgd(params, grads, momentumBuffers, weightDecay, momentum, lr.item<double>(), dampening, nesterov, maximize,
                 isFirstStep, gradScale, foundInf);
}

void fused_adagrad(at::TensorList params, at::TensorList grads, at::TensorList stateSums, at::TensorList steps, double lr,
                   double lrDecay, double weightDecay, double eps, bool maximize, const std::optional<at::Tensor>& gradScale,
                   const std::optional<at::Tensor>& foundInf) {
  at::_fused_adagrad_(params, grads, stateSums, steps, lr, lrDecay, weightDecay, eps, maximize, gradScale, foundInf);
}

void fused_adagrad_tensor_lr(at::TensorList params, at::TensorList grads, at::TensorList stateSums, at::TensorList steps,
                             const at::Tensor& lr, double lrDecay, double weightDecay, double eps, bool maximize,
                             const std::optional<at::Tensor>& gradScale, const std::optional<at::Tensor>& foundInf) {
  fused_adagrad(params, grads, stateSums, steps, lr.item<double>(), lrDecay, weightDecay, eps, maximize, gradScale, foundInf);
}

void fused_sgd(at::TensorList paramsRef, at::TensorList gradsRef, at::TensorList momentumBufferListOptionalRef,
               const std::optional<at::Tensor>& gradScaleOptional, double weightDecay, double momentum, double lr,
               double dampening, bool nesterov, bool maximize, bool isFirstStep) {
  soft_fused_sgd(paramsRef, gradsRef, momentumBufferListOptionalRef, weightDecay, momentum, lr, dampening, nesterov, maximize,
                 isFirstStep, gradScaleOptional, {});
}

}  // namespace softnpu::ops::kernels
