// CUDA_VISIBLE_DEVICES for the device library, which knows ASCEND_RT_VISIBLE_DEVICES alone: what a program for CUDA sets, before
// it uses a device, says which NPUs it has. ASCEND_RT_VISIBLE_DEVICES has the last word where it is set.
//
//   const VisibleDevices visible;   // the library reads the list in this scope; then the environment is as it was
#pragma once

#include <c10/macros/Export.h>

namespace torch_npu::acl {

// Off at first. Of no effect on a library that is loaded.
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
