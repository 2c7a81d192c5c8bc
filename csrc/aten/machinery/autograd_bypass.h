// Skips PyTorch's autograd kernel for calls that need no gradient: no operand is tracked, or gradients are off. Most calls in
// backward formulas, optimizers and inference are such calls, and the kernel costs as much as a small operator.
//
//   const AutogradKernel exp_kernel("aten::exp", "");
//
//   at::Tensor exp_autograd(c10::DispatchKeySet keys, const at::Tensor& self) {       // registered for AutogradPrivateUse1
//     if (!exp_kernel.may_be_skipped(keys, self)) return at::_ops::exp::redispatch(with_autograd(keys), self);
//     const at::AutoDispatchBelowADInplaceOrView below;
//     return at::_ops::exp::redispatch(kDeviceKeys, self);
//   }
//
// The dispatcher chooses the device's kernel, so a kernel that a user registers for PrivateUse1 is called in every mode. A user's
// kernel for AutogradPrivateUse1 replaces the bypass; a user's kernel for Autograd disables it. Only for operators that return
// new tensors and write to none.
#pragma once

#include <ATen/core/IListRef.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include <optional>

#include "aten/machinery/dispatch_entry.h"

namespace torch_npu {

namespace detail {

inline bool is_untracked(const at::Tensor& tensor, bool gradients) {
  if (!tensor.defined()) return true;
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  if (impl->autograd_meta() == nullptr) return true;
  return !(gradients && impl->requires_grad()) && !tensor._fw_grad(/*level=*/0).defined();
}
inline bool is_untracked(const std::optional<at::Tensor>& tensor, bool gradients) {
  return !tensor.has_value() || is_untracked(*tensor, gradients);
}
inline bool is_untracked(const at::ITensorListRef& tensors, bool gradients) {
  for (const at::Tensor& tensor : tensors) {
    if (!is_untracked(tensor, gradients)) return false;
  }
  return true;
}
inline bool is_untracked(at::TensorList tensors, bool gradients) { return is_untracked(at::ITensorListRef(tensors), gradients); }
inline bool is_untracked(const c10::List<std::optional<at::Tensor>>& tensors, bool gradients) {
  for (const std::optional<at::Tensor>& tensor : tensors) {
    if (!is_untracked(tensor, gradients)) return false;
  }
  return true;
}

}  // namespace detail

// Whether no dispatch key between autograd and the device handles the call; `keys` are those that the dispatcher passed.
inline bool is_seen_by_device_alone(c10::DispatchKeySet keys) {
  using c10::DispatchKey;
  constexpr c10::DispatchKeySet kOthers({DispatchKey::Python, DispatchKey::Fake, DispatchKey::FuncTorchDynamicLayerBackMode,
                                         DispatchKey::Functionalize, DispatchKey::Conjugate, DispatchKey::Negative,
                                         DispatchKey::ZeroTensor, DispatchKey::Sparse, DispatchKey::SparseCsr,
                                         DispatchKey::Quantized});
  return !keys.has_any(kOthers);
}

// PyTorch's autograd kernel of an operator. Construct it when the plugin is loaded, before users register kernels.
class AutogradKernel {
 public:
  AutogradKernel(const char* name, const char* overload) : slot_(name, overload, c10::DispatchKey::AutogradOther) {}

  // `operands` are all tensors of the call.
  template <class... Operands>
  bool may_be_skipped(c10::DispatchKeySet keys, const Operands&... operands) const {
    if (!is_seen_by_device_alone(keys) || !slot_.is_unchanged()) return false;
    [[maybe_unused]] const bool gradients = at::GradMode::is_enabled();
    return (detail::is_untracked(operands, gradients) && ...);
  }

 private:
  DispatchEntry slot_;
};

// Keys that lead to PyTorch's autograd kernel and from there to the device. Keys before autograd are removed: they have been
// handled, and Python's dispatcher would call this kernel again without end.
inline c10::DispatchKeySet with_autograd(c10::DispatchKeySet keys) {
  return (keys & c10::after_autograd_keyset).add(c10::DispatchKey::AutogradOther);
}

// Keys that lead to the device's kernel.
constexpr c10::DispatchKeySet kDeviceKeys(c10::DispatchKey::PrivateUse1);

}  // namespace torch_npu
