// Marks of the functions and classes that libtorch_npu.so exports.
#pragma once

#include <c10/macros/Export.h>

#define C10_NPU_API C10_EXPORT
#define TORCH_NPU_API C10_EXPORT
