// What npu lacks runs on CPU, visibly: each operator is counted and warned about once; in strict mode it is an error instead.
//
// A call that mixes devices is refused in PyTorch's words before anything is copied. Views, collectives and operators that CPU
// lacks too never fall back. Arguments that the operator writes are copied back, resized if CPU resized them.
#pragma once

#include <ATen/core/stack.h>
#include <c10/macros/Export.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace c10 {
class OperatorHandle;
}

namespace torch_npu {

// Operator and number of calls since the last reset, by name.
C10_EXPORT std::vector<std::pair<std::string, int64_t>> fallback_stats();
C10_EXPORT void reset_fallback_stats();

// Starts as TORCH_NPU_STRICT_FALLBACK says.
C10_EXPORT void set_strict_fallback(bool strict);
C10_EXPORT bool strict_fallback();

// The fallback as a kernel for an operator that npu has: counted, but neither warned about nor forbidden by strict mode.
void forced_fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack);

// The fallback for tensors of compressed rows or columns, as a kernel: PyTorch prefers a composition of its own, which makes such
// a tensor where the result is dense.
void compressed_fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack);

// The same for nested tensors.
void nested_fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace torch_npu
