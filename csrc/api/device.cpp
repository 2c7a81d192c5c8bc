// The public functions for devices, waits and errors, and init_npu() and finalize_npu() for programs without Python.
#include "core/device/device.h"

#include <ATen/core/Tensor.h>
#include <c10/core/DeviceType.h>

#include "acl/error_codes/rt_error_codes.h"
#include "acl/symbol.h"
#include "core/memory/allocator.h"
#include "core/stream/after_synchronize.h"
#include "core/stream/all_work.h"
#include "core/stream/sync_debug.h"
#include "core/stream/wait.h"
#include "torch_npu/csrc/core/npu/NPUFunctions.h"
#include "torch_npu/csrc/libs/init_npu.h"

namespace c10_npu {

c10::DeviceIndex device_count() noexcept { return torch_npu::device_count(); }

c10::DeviceIndex device_count_ensure_non_zero() {
  if (device_count() == 0) torch_npu::detail::refuse_device(0);
  return device_count();
}

c10::DeviceIndex current_device() { return torch_npu::current_device(); }

void set_device(c10::DeviceIndex device) { torch_npu::set_device(device); }

aclError GetDevice(int32_t* device) {
  if (device == nullptr) return ACL_ERROR_INVALID_PARAM;
  *device = torch_npu::current_device();
  return ACL_SUCCESS;
}

aclError SetDevice(c10::DeviceIndex device) {
  if (device < 0 || device >= device_count()) return ACL_ERROR_RT_INVALID_DEVICEID;
  torch_npu::set_device(device);
  torch_npu::bind_device();
  return ACL_SUCCESS;
}

void device_synchronize() { torch_npu::synchronize_device(torch_npu::current_device()); }

void stream_synchronize(aclrtStream stream) {
  torch_npu::bind_device();
  torch_npu::wait_in_slices("aclrtSynchronizeStreamWithTimeout", [stream](int32_t milliseconds) {
    return ACL_FN(aclrtSynchronizeStreamWithTimeout)(stream, milliseconds);
  });
  torch_npu::after_synchronize();
}

void WarningState::set_sync_debug_mode(SyncDebugMode mode) {
  torch_npu::set_sync_debug_mode(static_cast<torch_npu::SyncDebug>(mode));
}

SyncDebugMode WarningState::get_sync_debug_mode() const { return static_cast<SyncDebugMode>(torch_npu::sync_debug_mode()); }

WarningState& warning_state() {
  static constinit WarningState state;
  return state;
}

void warn_or_error_on_sync() { torch_npu::report_sync("a function of an extension", "it called a synchronizing NPU operation"); }

const char* c10_npu_get_error_message() {
  const char* message = ACL_FN(aclGetRecentErrMsg)();
  return message == nullptr ? "" : message;
}

void check_error(aclError code, const char* call) { torch_npu::acl::check(code, call); }

}  // namespace c10_npu

namespace torch_npu {

void init_npu(const c10::DeviceIndex device_index) {
  c10::register_privateuse1_backend("npu");
  set_device(checked_device(device_index));
  bind_device();
}

void init_npu(const at::Device& device) {
  TORCH_CHECK(device.type() == kDeviceType, "init_npu() begins with an npu, but was given ", device);
  init_npu(device.has_index() ? device.index() : current_device());
}

void init_npu(const std::string& device_str) {
  c10::register_privateuse1_backend("npu");  // before the name can be read
  init_npu(at::Device(device_str));
}

void finalize_npu() {
  for (c10::DeviceIndex device = 0; device < device_count(); ++device) synchronize_device(device);
  if (is_initialized()) getNPUAllocator()->emptyCache();
}

}  // namespace torch_npu

void torch::npu::synchronize(int64_t device_index) { torch_npu::synchronize_device(torch_npu::checked_device(device_index)); }

c10::DeviceIndex c10::npu::current_device() { return torch_npu::current_device(); }
