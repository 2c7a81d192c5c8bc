#include "aten/machinery/cube_math.h"

namespace torch_npu::detail {

constinit std::atomic<CubeMath> matmul_math{CubeMath::kKeepDtype};
constinit std::atomic<CubeMath> conv_math{CubeMath::kAllowReducedPrecision};

}  // namespace torch_npu::detail
