// Whether host memory that a client names is there at all.
#pragma once

#include <cstddef>

#include "runtime/base/status.h"

namespace softnpu {

// ACL_ERROR_RT_PARAM_INVALID if a page of [address, address + bytes) is not mapped: then a copy would crash the process instead
// of failing. Costs a system call. `bytes` is not 0.
Status check_host_range(const void* address, size_t bytes, const char* argument);

// The same without the system call for a page that the calling thread asked about lately, mapped then and hopefully still: for
// small copies.
Status check_host_range_quickly(const void* address, size_t bytes, const char* argument);

}  // namespace softnpu
