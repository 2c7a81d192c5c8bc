// Reductions, element by element: destination = source 0 op source 1 op ... in this order. The order does not depend on the order
// in which data arrives, so all ranks and all runs compute the same bits.
//
// float16 and bfloat16 are combined in float32 and rounded once, at the end. Integers wrap around. The maximum and the minimum of
// NaN and another number are NaN.
#pragma once

#include <cstddef>

#include "hccl/hccl_types.h"

namespace softnpu::hccl {

// `destination` may be one of the sources. All are aligned to their type.
using ReduceFunction = void (*)(void* destination, const void* const* sources, size_t source_count, size_t elements);

// Which operands are partial results. A partial result of float16 and bfloat16 is float32; of other types it is an ordinary
// value.
struct Partial {
  bool source = false;  // source 0
  bool destination = false;
};

// Null for a data type or an operation that cannot be reduced.
ReduceFunction find_reduce(HcclDataType type, HcclReduceOp op, Partial partial = {});

// Bytes of one element; 0 if `type` is not a data type.
size_t element_size(HcclDataType type);
// Bytes of one element of a partial result.
size_t partial_size(HcclDataType type);
// "float32"; "an unknown data type" if `type` is not a data type.
const char* type_name(HcclDataType type);
const char* reduce_name(HcclReduceOp op);

}  // namespace softnpu::hccl
