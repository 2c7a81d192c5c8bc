// The devices of this process, and waits for them.
//
//   c10_npu::set_device(1);
//   c10_npu::device_synchronize();
//
// Each thread has a current device, 0 at its start. Thread-safe.
#pragma once

#include <acl/acl_rt.h>
#include <c10/core/Device.h>

#include <cstdint>

#include "torch_npu/csrc/core/npu/NPUException.h"
#include "torch_npu/csrc/core/npu/NPUMacros.h"

namespace c10_npu {

// 0 if there is no usable device library.
C10_NPU_API c10::DeviceIndex device_count() noexcept;
// Throws with the reason if there is no device.
C10_NPU_API c10::DeviceIndex device_count_ensure_non_zero();

C10_NPU_API c10::DeviceIndex current_device();
// Throws if there is no such device.
C10_NPU_API void set_device(c10::DeviceIndex device);

// The same with AscendCL's codes: ACL_ERROR_INVALID_PARAM for a null pointer, ACL_ERROR_RT_INVALID_DEVICEID for a device that
// does not exist.
C10_NPU_API aclError GetDevice(int32_t* device);
C10_NPU_API aclError SetDevice(c10::DeviceIndex device);

// Waits for the current device, or for a stream of it (null: its default stream). Throws the failure of an operator, once.
C10_NPU_API void device_synchronize();
C10_NPU_API void stream_synchronize(aclrtStream stream);

// The mode of torch.npu.set_sync_debug_mode().
enum class SyncDebugMode { L_DISABLED = 0, L_WARN, L_ERROR };

class C10_NPU_API WarningState {
 public:
  void set_sync_debug_mode(SyncDebugMode mode);
  SyncDebugMode get_sync_debug_mode() const;
};

// The one state of the process.
C10_NPU_API WarningState& warning_state();
// Called before a wait for the device. Warns, throws or does nothing, depending on the mode.
C10_NPU_API void warn_or_error_on_sync();

}  // namespace c10_npu
