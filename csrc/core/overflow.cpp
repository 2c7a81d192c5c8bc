#include "core/overflow.h"

#include <array>

#include "acl/symbol.h"
#include "core/memory/allocator.h"
#include "core/stream/stream.h"

namespace torch_npu {

bool overflow_is_infinite() {
  const BoundDevice bound(current_device());
  aclrtFloatOverflowMode mode = ACL_RT_OVERFLOW_MODE_UNDEF;
  ACL_CALL(aclrtGetDeviceSatMode, &mode);
  return mode == ACL_RT_OVERFLOW_MODE_INFNAN;
}

bool overflow_flag() {
  const at::DataPtr memory = allocate_workspace(kOverflowStatusBytes);
  read_overflow_status(memory.get());
  getCurrentNPUStream().synchronize();
  std::array<char, kOverflowStatusBytes> status{};
  ACL_CALL(aclrtMemcpy, status.data(), status.size(), memory.get(), status.size(), ACL_MEMCPY_DEVICE_TO_HOST);
  return status != std::array<char, kOverflowStatusBytes>{};
}

void read_overflow_status(void* memory) {
  const NPUStream stream = getCurrentNPUStream();
  ACL_CALL(aclrtGetOverflowStatus, memory, kOverflowStatusBytes, stream.stream());
}

void clear_overflow_flag() {
  const NPUStream stream = getCurrentNPUStream();
  ACL_CALL(aclrtResetOverflowStatus, stream.stream());
}

void clear_overflow_flags() {
  for (c10::DeviceIndex device = 0; device < device_count(); ++device) {
    if (!has_context(device)) continue;
    const BoundDevice bound(device);
    clear_overflow_flag();
  }
}

}  // namespace torch_npu
