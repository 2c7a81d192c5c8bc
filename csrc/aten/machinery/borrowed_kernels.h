// Registers ATen's CPU kernels of a tensor layout for the npu. A CPU kernel that only calls other operators runs on any device.
//
//   TORCH_LIBRARY_IMPL(aten, SparsePrivateUse1, m) { borrow<c10::DispatchKey::SparseCPU>(m, {"clone", "coalesce"}); }
//
// Not for kernels that read memory directly.
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

// The functional, in-place and out= form of elementwise functions of one tensor.
template <c10::DispatchKey kLender>
void borrow_unary(torch::Library& library, std::initializer_list<std::string> names) {
  for (const std::string& name : names) borrow<kLender>(library, {name, name + "_", name + ".out"});
}

}  // namespace torch_npu
