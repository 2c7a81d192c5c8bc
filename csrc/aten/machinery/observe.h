// Calls an observer before and after an operator's kernel, for debugging.
//
//   struct Printer final : OperatorObserver { ... };
//   const auto observed = observe("aten::add.Tensor", std::make_unique<Printer>());   // until the end of the scope
//
// The observer is called on the thread that runs the operator. An exception that it throws ends the call of the operator.
#pragma once

#include <ATen/core/stack.h>
#include <torch/library.h>

#include <memory>
#include <string>

namespace torch_npu {

// One call of an observed operator.
class ObservedCall {
 public:
  virtual ~ObservedCall() = default;
  // Called after the kernel, unless the kernel throws. Tensors in `results` are aliases of those that the caller gets: a tensor
  // that Python has seen could no longer become a torch.nn.Parameter.
  virtual void finish(torch::jit::Stack results) = 0;
};

class OperatorObserver {
 public:
  virtual ~OperatorObserver() = default;
  // Called before the kernel. Null if nothing is to be done after it.
  virtual std::unique_ptr<ObservedCall> begin(const c10::FunctionSchema& schema, c10::ArrayRef<c10::IValue> arguments) = 0;
};

// Puts the observer around the operator's kernel for PrivateUse1 until the returned object is destroyed; see
// aten/machinery/kernel_override.h. `op` is a name such as "aten::add.Tensor". Throws if there is no such operator.
C10_EXPORT std::unique_ptr<torch::Library> observe(const std::string& op, std::unique_ptr<OperatorObserver> observer);

}  // namespace torch_npu
