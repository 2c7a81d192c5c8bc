#include "core/device_queries.h"

#include <array>

#include "acl/symbol.h"
#include "core/device/device.h"

namespace torch_npu {

Load load_of(c10::DeviceIndex device) {
  initialize();
  aclrtUtilizationInfo info{};
  ACL_CALL(aclrtGetDeviceUtilizationRate, checked_device(device), &info);
  return {.cube = info.cubeUtilization, .vector = info.vectorUtilization, .memory = info.memoryUtilization};
}

bool can_access_peer(c10::DeviceIndex device, c10::DeviceIndex peer) {
  initialize();
  int32_t can = 0;
  ACL_CALL(aclrtDeviceCanAccessPeer, &can, checked_device(device), checked_device(peer));
  return can != 0;
}

bool has_bf16() {
  static const bool has = [] {
    int32_t value = 0;
    ACL_CALL(aclGetCannAttribute, ACL_CANN_ATTR_BF16, &value);
    return value != 0;
  }();
  return has;
}

size_t damaged_memory(c10::DeviceIndex device) {
  initialize();
  std::array<aclrtMemUceInfo, 20> ranges{};
  size_t count = 0;
  ACL_CALL(aclrtGetMemUceInfo, checked_device(device), ranges.data(), ranges.size(), &count);
  return count;
}

}  // namespace torch_npu
