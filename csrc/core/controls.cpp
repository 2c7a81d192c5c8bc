#include "core/controls.h"

#include <array>
#include <chrono>
#include <thread>

#include "acl/symbol.h"
#include "core/memory/allocator.h"

namespace torch_npu {
namespace {

aclrtDevResLimitType kind_of(Core core) { return core == Core::kCube ? ACL_RT_DEV_RES_CUBE_CORE : ACL_RT_DEV_RES_VECTOR_CORE; }

void sleep_for(void* nanoseconds) {
  std::this_thread::sleep_for(std::chrono::nanoseconds(reinterpret_cast<uintptr_t>(nanoseconds)));
}

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

size_t damaged_memory(c10::DeviceIndex device) {
  initialize();
  std::array<aclrtMemUceInfo, 20> ranges{};
  size_t count = 0;
  ACL_CALL(aclrtGetMemUceInfo, checked_device(device), ranges.data(), ranges.size(), &count);
  return count;
}

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
