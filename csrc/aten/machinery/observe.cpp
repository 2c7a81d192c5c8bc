#include "aten/machinery/observe.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include "aten/machinery/kernel_override.h"

namespace torch_npu {
namespace {

// Another tensor on the same memory.
at::Tensor alias_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  return at::Tensor(tensor.unsafeGetTensorImpl()->shallow_copy_and_detach(c10::VariableVersion(0), false));
}

c10::IValue alias_of(const c10::IValue& value) {
  if (value.isTensor()) return alias_of(value.toTensor());
  if (!value.isTensorList()) return value;
  c10::List<at::Tensor> list;
  for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(alias_of(tensor));
  return list;
}

torch::jit::Stack results_of(const c10::FunctionSchema& schema, const torch::jit::Stack& stack) {
  torch::jit::Stack results(stack.end() - static_cast<int64_t>(schema.returns().size()), stack.end());
  for (c10::IValue& result : results) result = alias_of(result);
  return results;
}

class ObservedKernel : public c10::OperatorKernel {
 public:
  ObservedKernel(const c10::SafeKernelFunction& kernel, std::unique_ptr<OperatorObserver> observer)
      : kernel_(kernel), observer_(std::move(observer)) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
    const c10::FunctionSchema& schema = op.schema();
    const auto call = observer_->begin(schema, torch::jit::last(*stack, schema.arguments().size()));
    kernel_.callBoxed(op, keys, stack);
    if (call != nullptr) call->finish(results_of(schema, *stack));
  }

 private:
  const c10::SafeKernelFunction kernel_;
  const std::unique_ptr<OperatorObserver> observer_;
};

}  // namespace

std::unique_ptr<torch::Library> observe(const std::string& op, std::unique_ptr<OperatorObserver> observer) {
  const size_t dot = op.find('.');
  const std::string overload = dot == std::string::npos ? std::string() : op.substr(dot + 1);
  const auto found = c10::Dispatcher::singleton().findSchemaOrThrow(op.substr(0, dot).c_str(), overload.c_str());
  auto kernel =
      std::make_unique<ObservedKernel>(found.getComputedKernelForDispatchKey(c10::DispatchKey::PrivateUse1), std::move(observer));
  return override_kernel(op, c10::DispatchKey::PrivateUse1, torch::CppFunction::makeFromBoxedFunctor(std::move(kernel)));
}

}  // namespace torch_npu
