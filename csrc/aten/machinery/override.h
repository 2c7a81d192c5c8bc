// Kernels put over those of an operator for debugging. The operator has its old kernels again when the returned object is
// destroyed.
//
//   const auto forced = force_fallback("aten::add.Tensor");   // add runs on the CPU until the end of the scope
//
// Not to be called while another thread runs that operator. Operators without an override do not notice.
#pragma once

#include <torch/library.h>

#include <memory>
#include <string>

namespace torch_npu {

// The operator runs on the CPU, as aten/machinery/fallback.h says of forced ones.
C10_EXPORT std::unique_ptr<torch::Library> force_fallback(const std::string& op);

// Any kernel for any key, without PyTorch's warning.
C10_EXPORT std::unique_ptr<torch::Library> override_kernel(const std::string& op, c10::DispatchKey key,
                                                           torch::CppFunction kernel);

}  // namespace torch_npu
