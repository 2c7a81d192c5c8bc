// What npu lacks runs on CPU, visibly: each operator is counted and warned about once; in strict mode it is an error instead.
//
// A call that mixes devices is refused in PyTorch's words before anything is copied. Views, collectives and operators that CPU
// lacks too never fall back. Arguments that the operator writes are copied back, resized if CPU resized them.
#pragma once

#include <c10/macros/Export.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace torch_npu {

// Operator and number of calls since the last reset, by name.
C10_EXPORT std::vector<std::pair<std::string, int64_t>> fallback_stats();
C10_EXPORT void reset_fallback_stats();

// Starts as TORCH_NPU_STRICT_FALLBACK says.
C10_EXPORT void set_strict_fallback(bool strict);
C10_EXPORT bool strict_fallback();

}  // namespace torch_npu
