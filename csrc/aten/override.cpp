#include "aten/override.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>

#include "aten/autograd_bypass.h"
#include "aten/fallback.h"

namespace torch_npu {
namespace {

// PyTorch warns once per process that a kernel is overridden; here that is what was asked for.
class Silence : public c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

bool is_untracked(const c10::IValue& value, bool gradients) {
  if (value.isTensor()) return detail::is_untracked(value.toTensor(), gradients);
  if (value.isTensorList()) return detail::is_untracked(at::TensorList(value.toTensorVector()), gradients);
  if (value.isOptionalTensorList()) return detail::is_untracked(value.toOptionalTensorList(), gradients);
  return true;
}

void bypass_autograd(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const auto arguments = torch::jit::last(*stack, op.schema().arguments().size());
  const bool gradients = at::GradMode::is_enabled();
  const auto untracked = [&](const c10::IValue& value) { return is_untracked(value, gradients); };
  if (!autograd_may_be_skipped(keys) || !std::all_of(arguments.begin(), arguments.end(), untracked)) {
    return op.redispatchBoxed(with_autograd(keys), stack);
  }
  const at::AutoDispatchBelowADInplaceOrView below;
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), stack);
}

}  // namespace

std::unique_ptr<torch::Library> override_kernel(const std::string& op, c10::DispatchKey key, torch::CppFunction kernel) {
  const std::string space = op.substr(0, op.find("::"));
  auto library = std::make_unique<torch::Library>(torch::Library::IMPL, space, key, __FILE__, __LINE__);
  Silence silence;
  const c10::WarningUtils::WarningHandlerGuard guard(&silence);
  library->impl(op.c_str(), std::move(kernel));
  return library;
}

std::unique_ptr<torch::Library> force_fallback(const std::string& op) {
  return override_kernel(op, c10::DispatchKey::PrivateUse1, torch::CppFunction::makeFromBoxedFunction<&forced_fallback>());
}

std::unique_ptr<torch::Library> open_autograd_bypass(const std::string& op) {
  return override_kernel(op, c10::DispatchKey::AutogradPrivateUse1,
                         torch::CppFunction::makeFromBoxedFunction<&bypass_autograd>());
}

}  // namespace torch_npu
