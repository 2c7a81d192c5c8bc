#include "core/device_commands.h"

#include <chrono>
#include <thread>

#include "acl/symbol.h"
#include "core/stream/stream.h"

namespace torch_npu {
namespace {

void sleep_for(void* nanoseconds) {
  std::this_thread::sleep_for(std::chrono::nanoseconds(reinterpret_cast<uintptr_t>(nanoseconds)));
}

}  // namespace

void set_op_timeout(uint64_t milliseconds) {
  initialize();
  uint64_t in_force = 0;
  ACL_CALL(aclrtSetOpExecuteTimeOutV2, milliseconds * 1000, &in_force);
}

void sleep_on_stream(uint64_t nanoseconds) {
  const NPUStream stream = getCurrentNPUStream();
  ACL_CALL(aclrtLaunchHostFunc, stream.stream(), sleep_for, reinterpret_cast<void*>(nanoseconds));
}

void abort_device(c10::DeviceIndex device) {
  const c10::DeviceIndex index = checked_device(device);
  const BoundDevice bound(index);
  ACL_CALL(aclrtDeviceTaskAbort, index, /*timeout=*/0);
}

}  // namespace torch_npu
