// Which arithmetic matrix products and convolutions may use.
#pragma once

#include <cstdint>

namespace torch_npu {

// aclnn's cubeMathType.
enum class CubeMath : int8_t { kKeepDtype = 0, kAllowReducedPrecision = 1, kUseFloat16 = 2, kUseHf32 = 3 };

inline int8_t cube_math_type() { return static_cast<int8_t>(CubeMath::kKeepDtype); }

}  // namespace torch_npu
