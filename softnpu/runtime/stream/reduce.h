// Elementwise reductions, destination = destination OP source, which the copy engine of an NPU does (aclrtReduceAsync).
//
//   Result<ReduceFunction> reduce = find_reduce(ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_FLOAT);
//   reduce.value()(destination, source, count);
#pragma once

#include <cstddef>

#include "acl/acl_rt.h"
#include "runtime/base/status.h"

namespace softnpu {

// Combines `count` elements of one type. The arguments are kernel addresses.
using ReduceFunction = void (*)(void* destination, const void* source, size_t count);

// ACL_ERROR_RT_PARAM_INVALID for an unknown kind, and for a data type that cannot be reduced.
Result<ReduceFunction> find_reduce(aclrtReduceKind kind, aclDataType type);

}  // namespace softnpu
