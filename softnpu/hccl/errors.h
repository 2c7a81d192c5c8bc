// Codes of the collective library. Inside, a Status carries an HcclResult in place of an aclError.
#pragma once

#include "hccl/hccl_types.h"
#include "runtime/base/status.h"

namespace softnpu::hccl {

// "HCCL_E_PARA"; "HCCL_E_RESERVED" for a number that is no code.
const char* result_name(HcclResult code);

// What HcclGetErrorString answers: one sentence per code.
const char* result_text(HcclResult code);

// The code that a stream reports for a task that failed with `code`.
aclError stream_error(HcclResult code);

// "open failed: No such file or directory" with HCCL_E_SYSCALL, from errno.
Status system_failure(const std::string& what, HcclResult code = HCCL_E_SYSCALL);

}  // namespace softnpu::hccl
