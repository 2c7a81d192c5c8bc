// Makes the device library honour CUDA_VISIBLE_DEVICES, for programs that were written for CUDA.
//
//   const VisibleDevices visible;   // the device library reads its list of devices in this scope
//
// The device library reads ASCEND_RT_VISIBLE_DEVICES only. While an object lives, this variable has the value of
// CUDA_VISIBLE_DEVICES, unless it was set already. Not thread-safe, because it changes the environment.
#pragma once

#include <c10/macros/Export.h>

namespace torch_npu::acl {

// Off at first. No effect after the device library is loaded.
C10_EXPORT void follow_visible_devices_of_cuda(bool on);

class C10_EXPORT VisibleDevices {
 public:
  VisibleDevices();
  ~VisibleDevices();
  VisibleDevices(const VisibleDevices&) = delete;
  VisibleDevices& operator=(const VisibleDevices&) = delete;

 private:
  bool is_set_ = false;
};

}  // namespace torch_npu::acl
