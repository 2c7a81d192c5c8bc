// Operators without an npu kernel run on the CPU. Each call is counted, and the first one of an operator warns; in strict mode a
// call throws instead.
//
//   set_strict_fallback(true);
//   fallback_stats();                  // {{"aten::_foobar", 3}}
//
// A call that mixes devices throws PyTorch's error before anything is copied. Views, collectives and operators that the CPU lacks
// never fall back. Arguments that the operator writes are copied back, and resized if the CPU kernel resized them. Thread-safe.
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

// The initial value comes from TORCH_NPU_STRICT_FALLBACK.
C10_EXPORT void set_strict_fallback(bool strict);
C10_EXPORT bool strict_fallback();

// A kernel that runs an operator on the CPU although npu has a kernel for it. The call is counted; it does not warn, and strict
// mode allows it.
void forced_fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack);

// The fallback for sparse compressed tensors, as a kernel to register. Without it PyTorch composes the operator from others, and
// returns a compressed tensor where the CPU returns a dense one.
void compressed_fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack);

// The same for nested tensors.
void nested_fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace torch_npu
