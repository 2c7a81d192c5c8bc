// Checks that host memory is mapped before it is copied.
//
//   SOFTNPU_RETURN_IF_ERROR(check_host_range(source, bytes, "src"));
#pragma once

#include <cstddef>

#include "runtime/base/status.h"

namespace softnpu {

// ACL_ERROR_RT_PARAM_INVALID if a page of [address, address + bytes) is not mapped: a copy of it would crash the process. Makes a
// system call. `bytes` is not 0.
Status check_host_range(const void* address, size_t bytes, const char* argument);

// The same, for small copies: makes no system call for a page that the calling thread has checked recently. Such a page may have
// been unmapped since.
Status check_host_range_quickly(const void* address, size_t bytes, const char* argument);

}  // namespace softnpu
