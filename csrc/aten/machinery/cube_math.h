// The arithmetic that matrix products and convolutions may use; set by torch.npu.matmul and torch.npu.conv.
//
//   aclnnMm(self, mat2, out, cube_math_type());
//
// Values are aclnn's cubeMathType. softnpu ignores them and computes in the dtype of the operands. Thread-safe.
#pragma once

#include <c10/macros/Export.h>

#include <atomic>
#include <cstdint>

namespace torch_npu {

enum class CubeMath : int8_t { kKeepDtype = 0, kAllowReducedPrecision = 1, kUseFloat16 = 2, kUseHf32 = 3, kUseFloat32Add = 4 };

namespace detail {

C10_EXPORT extern constinit std::atomic<CubeMath> matmul_math;
C10_EXPORT extern constinit std::atomic<CubeMath> conv_math;

}  // namespace detail

inline int8_t cube_math_type() { return static_cast<int8_t>(detail::matmul_math.load(std::memory_order_relaxed)); }
inline int8_t conv_math_type() { return static_cast<int8_t>(detail::conv_math.load(std::memory_order_relaxed)); }

inline void set_matmul_math(CubeMath math) { detail::matmul_math.store(math, std::memory_order_relaxed); }
inline void set_conv_math(CubeMath math) { detail::conv_math.store(math, std::memory_order_relaxed); }

}  // namespace torch_npu
