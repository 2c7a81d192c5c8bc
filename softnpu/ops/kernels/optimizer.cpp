#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>
#include <ATen/ops/_amp_update_scale.h>
#include <ATen/ops/_fused_adagrad.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>

#include <algorithm>
#include <initializer_list>
#include <vector>

#include "kernels.h"

namespace softnpu::ops::kernels {
namespace {

// ATen's fused kernels use one index for the memory of a parameter, its gradient and its states, which must be dense and of one
// layout. Tensors of other layouts are replaced by copies, which are copied back at the end. With `in_float` tensors of half
// precision are replaced, too.
class AlikeLists {
 public:
  explicit AlikeLists(std::initializer_list<at::TensorList> lists, bool in_float = false) : in_float_(in_float) {
    for (const at::TensorList list : lists) {
      given_.push_back(list);
      used_.push_back(list.vec());
    }
    for (size_t i = 0; i < given_[0].size(); ++i) {
      check_types(i);
      if (!is_alike(i) || is_widened(i)) replace(i);
    }
  }

  at::TensorList operator[](size_t list) const { return used_[list]; }

  void copy_back() const {
    for (size_t list = 0; list < given_.size(); ++list) {
      for (size_t i = 0; i < given_[list].size(); ++i) {
        if (!used_[list][i].is_same(given_[list][i])) given_[list][i].copy_(used_[list][i]);
      }
    }
  }

 private:
  void check_types(size_t i) const {
    for (const at::TensorList list : given_) {
      const bool fits = list.empty() || list[i].dtype() == given_[0][i].dtype();
      TORCH_CHECK(fits && given_[0][i].is_floating_point(), "a parameter of ", given_[0][i].dtype(),
                  " needs a gradient and states of the same floating type");
    }
  }

  bool is_widened(size_t i) const { return in_float_ && at::isReducedFloatingType(given_[0][i].scalar_type()); }

  bool is_alike(size_t i) const {
    return std::ranges::all_of(given_, [&](at::TensorList list) {
      return list.empty() || (list[i].strides() == given_[0][i].strides() && list[i].is_non_overlapping_and_dense());
    });
  }

  void replace(size_t i) {
    for (size_t list = 0; list < given_.size(); ++list) {
      if (given_[list].empty()) continue;
      used_[list][i] = given_[list][i].contiguous();
      if (is_widened(i)) used_[list][i] = used_[list][i].to(at::kFloat);
    }
  }

  std::vector<at::TensorList> given_;  // one may be empty
  std::vector<std::vector<at::Tensor>> used_;
  const bool in_float_;
};

}  // namespace

void amp_unscale(at::TensorList scaledGrads, at::Tensor& foundInf, const at::Tensor& invScale) {
  at::_amp_foreach_non_finite_check_and_unscale_(scaledGrads, foundInf, invScale);
}

// Clients pass the same tensor as current and updated one, or two tensors.
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
  const AlikeLists lists({params, grads, expAvgs, expAvgSqs, maxExpAvgSqs});
  if (decoupled) {
    at::_fused_adamw_(lists[0], lists[1], lists[2], lists[3], lists[4], steps, lr, beta1, beta2, weightDecay, eps, amsgrad,
                      maximize, gradScale, foundInf);
  } else {
    at::_fused_adam_(lists[0], lists[1], lists[2], lists[3], lists[4], steps, lr, beta1, beta2, weightDecay, eps, amsgrad,
                     maximize, gradScale, foundInf);
  }
  lists.copy_back();
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
  const AlikeLists lists({params, grads, momentumBuffers},
                         /*in_float=*/true);  // ATen's kernel for half precision reads outside of the tensors
  at::_fused_sgd_(lists[0], lists[1], lists[2], weightDecay, momentum, lr, dampening, nesterov, maximize, isFirstStep, gradScale,
                  foundInf);
  lists.copy_back();
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
  const AlikeLists lists({params, grads, stateSums});
  at::_fused_adagrad_(lists[0], lists[1], lists[2], steps, lr, lrDecay, weightDecay, eps, maximize, gradScale, foundInf);
  lists.copy_back();
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
