// Element by element: destination = destination (sum, max, min) source, as the copy engine of an NPU does it on the way.
#pragma once

#include <cstddef>

#include "acl/acl_rt.h"
#include "runtime/base/status.h"

namespace softnpu {

// Combines `count` elements of one type. Addresses are those that kernels use.
using ReduceFunction = void (*)(void* destination, const void* source, size_t count);

// ACL_ERROR_RT_PARAM_INVALID for a kind, or a data type, that cannot be reduced.
Result<ReduceFunction> find_reduce(aclrtReduceKind kind, aclDataType type);

}  // namespace softnpu
