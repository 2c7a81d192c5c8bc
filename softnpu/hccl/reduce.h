// Element by element: destination = source 0 op source 1 op ... in this order, whatever the order of arrival was. So all ranks,
// all runs and all transports have the same bits.
//
// float16 and bfloat16 are combined in float32 and rounded once, at the end. Integers wrap around. The maximum and the minimum of
// a NaN and anything are that NaN.
#pragma once

#include <cstddef>

#include "hccl/hccl_types.h"

namespace softnpu::hccl {

// `destination` may be one of the sources. All are aligned to their type.
using ReduceFunction = void (*)(void* destination, const void* const* sources, size_t source_count, size_t elements);

// Null for a data type or an operation that cannot be reduced.
ReduceFunction find_reduce(HcclDataType type, HcclReduceOp op);

// Bytes of one element; 0 for what is no data type.
size_t element_size(HcclDataType type);
// "float32"; "HcclDataType 99" for what is none.
const char* type_name(HcclDataType type);
const char* reduce_name(HcclReduceOp op);

}  // namespace softnpu::hccl
