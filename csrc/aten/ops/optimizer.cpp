// Fused optimizers whose learning rate is a tensor. The device reads a tensor on npu; a CPU tensor is passed as a number.
#include <ATen/ops/_fused_adagrad_ops.h>
#include <ATen/ops/_fused_adam_ops.h>
#include <ATen/ops/_fused_adamw_ops.h>
#include <ATen/ops/_fused_sgd_ops.h>
#include <torch/library.h>

#include "aten/machinery/device_scope.h"
#include "aten/machinery/optional_tensor.h"
#include "plugin/calls.h"

namespace torch_npu {
namespace {

template <class WithNumber, bool kDecoupled>
void adam(at::TensorList self, at::TensorList grads, at::TensorList exp_avgs, at::TensorList exp_avg_sqs,
          at::TensorList max_exp_avg_sqs, at::TensorList state_steps, const at::Tensor& lr, double beta1, double beta2,
          double weight_decay, double eps, bool amsgrad, bool maximize, const OptionalTensor& grad_scale,
          const OptionalTensor& found_inf) {
  if (lr.is_cpu()) {
    return WithNumber::call(self, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, lr.item<double>(), beta1, beta2,
                            weight_decay, eps, amsgrad, maximize, grad_scale, found_inf);
  }
  const DeviceScope scope(self);
  call::aclnnSoftFusedAdamTensorLr(self, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, lr, beta1, beta2,
                                   weight_decay, eps, amsgrad, maximize, kDecoupled, grad_scale, found_inf);
}

void sgd(at::TensorList self, at::TensorList grads, at::TensorList momentum_buffers, double weight_decay, double momentum,
         const at::Tensor& lr, double dampening, bool nesterov, bool maximize, bool is_first_step,
         const OptionalTensor& grad_scale, const OptionalTensor& found_inf) {
  if (lr.is_cpu()) {
    return at::_ops::_fused_sgd_::call(self, grads, momentum_buffers, weight_decay, momentum, lr.item<double>(), dampening,
                                       nesterov, maximize, is_first_step, grad_scale, found_inf);
  }
  const DeviceScope scope(self);
  call::aclnnSoftFusedSgdTensorLr(self, grads, momentum_buffers, weight_decay, momentum, lr, dampening, nesterov, maximize,
                                  is_first_step, grad_scale, found_inf);
}

void adagrad(at::TensorList self, at::TensorList grads, at::TensorList state_sums, at::TensorList state_steps,
             const at::Tensor& lr, double lr_decay, double weight_decay, double eps, bool maximize,
             const OptionalTensor& grad_scale, const OptionalTensor& found_inf) {
  if (lr.is_cpu()) {
    return at::_ops::_fused_adagrad_::call(self, grads, state_sums, state_steps, lr.item<double>(), lr_decay, weight_decay, eps,
                                           maximize, grad_scale, found_inf);
  }
  const DeviceScope scope(self);
  call::aclnnSoftFusedAdagradTensorLr(self, grads, state_sums, state_steps, lr, lr_decay, weight_decay, eps, maximize, grad_scale,
                                      found_inf);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_fused_adam_.tensor_lr", TORCH_FN((adam<at::_ops::_fused_adam_, false>)));
  m.impl("_fused_adamw_.tensor_lr", TORCH_FN((adam<at::_ops::_fused_adamw_, true>)));
  m.impl("_fused_sgd_.tensor_lr", TORCH_FN(sgd));
  m.impl("_fused_adagrad_.tensor_lr", TORCH_FN(adagrad));
}

}  // namespace torch_npu
