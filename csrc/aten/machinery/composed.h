// ATen's CPU kernels that only call other operators run on any device. Where PyTorch registers such a kernel for a layout of the
// CPU, the npu borrows it:
//
//   TORCH_LIBRARY_IMPL(aten, SparsePrivateUse1, m) { borrow<c10::DispatchKey::SparseCPU>(m, {"clone", "coalesce"}); }
//
// Not for kernels that read memory themselves.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <initializer_list>

namespace torch_npu {

template <c10::DispatchKey kLender>
void run_borrowed(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  op.redispatchBoxed(c10::DispatchKeySet(kLender), stack);
}

template <c10::DispatchKey kLender>
void borrow(torch::Library& library, std::initializer_list<std::string> names) {
  for (const std::string& name : names)
    library.impl(name.c_str(), torch::CppFunction::makeFromBoxedFunction<&run_borrowed<kLender>>());
}

// Elementwise functions of one tensor, in their three forms.
template <c10::DispatchKey kLender>
void borrow_unary(torch::Library& library, std::initializer_list<std::string> names) {
  for (const std::string& name : names) borrow<kLender>(library, {name, name + "_", name + ".out"});
}

}  // namespace torch_npu
