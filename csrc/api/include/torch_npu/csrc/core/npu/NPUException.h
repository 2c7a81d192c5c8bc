// Turns codes of AscendCL into C++ exceptions.
//
//   NPU_CHECK_ERROR(NPU_ACL(aclrtMemcpyAsync)(target, bytes, source, bytes, kind, stream));
#pragma once

#include <acl/acl_base.h>
#include <c10/util/Exception.h>

#include "torch_npu/csrc/core/npu/NPUMacros.h"

namespace c10_npu {

// The device library's message about this thread's last failure; empty if there was none. Valid until the next call.
C10_NPU_API const char* c10_npu_get_error_message();

// Throws a c10::Error unless `code` is 0, with `call`, the code, its name and the message of the device library.
C10_NPU_API void check_error(aclError code, const char* call);

}  // namespace c10_npu

#define NPU_CHECK_ERROR(call) ::c10_npu::check_error((call), #call)
