#include "core/core_limits.h"

#include "acl/symbol.h"

namespace torch_npu {
namespace {

aclrtDevResLimitType kind_of(Core core) { return core == Core::kCube ? ACL_RT_DEV_RES_CUBE_CORE : ACL_RT_DEV_RES_VECTOR_CORE; }

}  // namespace

uint32_t core_limit(c10::DeviceIndex device, Core core) {
  initialize();
  uint32_t count = 0;
  ACL_CALL(aclrtGetDeviceResLimit, checked_device(device), kind_of(core), &count);
  return count;
}

void set_core_limit(c10::DeviceIndex device, Core core, uint32_t count) {
  initialize();
  ACL_CALL(aclrtSetDeviceResLimit, checked_device(device), kind_of(core), count);
}

uint32_t core_limit(NPUStream stream, Core core) {
  const BoundDevice bound(stream.device_index());
  uint32_t count = 0;
  ACL_CALL(aclrtGetStreamResLimit, stream.stream(), kind_of(core), &count);
  return count;
}

void set_core_limit(NPUStream stream, Core core, uint32_t count) {
  const BoundDevice bound(stream.device_index());
  ACL_CALL(aclrtSetStreamResLimit, stream.stream(), kind_of(core), count);
}

void reset_core_limits(NPUStream stream) {
  const BoundDevice bound(stream.device_index());
  ACL_CALL(aclrtResetStreamResLimit, stream.stream());
}

}  // namespace torch_npu
