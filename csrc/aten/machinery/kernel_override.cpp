#include "aten/machinery/kernel_override.h"

#include "aten/machinery/fallback.h"

namespace torch_npu {
namespace {

// Drops PyTorch's warning that a kernel is overridden.
class Silence : public c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

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

}  // namespace torch_npu
