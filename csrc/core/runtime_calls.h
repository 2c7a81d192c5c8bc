// Functions of the device library that programs call directly, by torch.npu.npurt(). Each binds the current device to the calling
// thread and returns the code of the call, 0 for success. Thread-safe.
//
//   const aclError code = register_host_memory(pointer, bytes, 0);
#pragma once

#include <c10/macros/Export.h>

#include <cstdint>

#include "acl/acl_rt.h"

namespace torch_npu {

C10_EXPORT aclError register_host_memory(void* pointer, uint64_t bytes, uint32_t flags);
C10_EXPORT aclError unregister_host_memory(void* pointer);
C10_EXPORT aclError create_stream(aclrtStream* stream);
C10_EXPORT aclError destroy_stream(aclrtStream stream);

}  // namespace torch_npu
