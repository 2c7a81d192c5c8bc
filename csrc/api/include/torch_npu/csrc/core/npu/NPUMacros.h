// What the public headers mark their functions and classes with: exported by libtorch_npu.so.
#pragma once

#include <c10/macros/Export.h>

#define C10_NPU_API C10_EXPORT
#define TORCH_NPU_API C10_EXPORT
