// Replaces kernels of an operator for debugging. Destroying the returned object restores the old kernel.
//
//   const auto forced = force_fallback("aten::add.Tensor");   // add runs on the CPU until the end of the scope
//
// Do not call these, or destroy their results, while another thread runs that operator. Other operators are not affected.
#pragma once

#include <torch/library.h>

#include <memory>
#include <string>

namespace torch_npu {

// The operator runs on the CPU: see forced_fallback() in aten/machinery/fallback.h.
C10_EXPORT std::unique_ptr<torch::Library> force_fallback(const std::string& op);

// Registers `kernel` for `key`, without PyTorch's warning about an override.
C10_EXPORT std::unique_ptr<torch::Library> override_kernel(const std::string& op, c10::DispatchKey key,
                                                           torch::CppFunction kernel);

}  // namespace torch_npu
