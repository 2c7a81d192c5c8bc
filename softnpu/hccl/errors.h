// Codes of the collective library. A Status inside this library has an HcclResult as its code, not an aclError.
#pragma once

#include "hccl/hccl_types.h"
#include "runtime/base/status.h"

namespace softnpu::hccl {

// "HCCL_E_PARA"; "HCCL_E_RESERVED" for an unknown code.
const char* result_name(HcclResult code);

// The text of HcclGetErrorString.
const char* result_text(HcclResult code);

// The code that a stream reports for a task that failed with `code`.
aclError stream_error(HcclResult code);

// "open failed: No such file or directory" with HCCL_E_SYSCALL, from errno.
Status system_failure(const std::string& what, HcclResult code = HCCL_E_SYSCALL);

}  // namespace softnpu::hccl
