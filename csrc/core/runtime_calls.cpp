#include "core/runtime_calls.h"

#include "acl/symbol.h"
#include "core/device/device.h"

namespace torch_npu {

aclError register_host_memory(void* pointer, uint64_t bytes, uint32_t flags) {
  bind_device();
  return ACL_FN(aclrtHostRegisterV2)(pointer, bytes, flags);
}

aclError unregister_host_memory(void* pointer) {
  bind_device();
  return ACL_FN(aclrtHostUnregister)(pointer);
}

aclError create_stream(aclrtStream* stream) {
  bind_device();
  return ACL_FN(aclrtCreateStream)(stream);
}

aclError destroy_stream(aclrtStream stream) {
  bind_device();
  return ACL_FN(aclrtDestroyStream)(stream);
}

}  // namespace torch_npu
