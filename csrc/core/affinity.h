// CPU_AFFINITY_CONF: which cores the threads run on that use a device.
//
//   CPU_AFFINITY_CONF=1                     the cores of the process are dealt out to the devices in equal ranges
//   CPU_AFFINITY_CONF=1,npu0:0-3,npu1:4-7   these cores for these devices
//
// A thread is bound when it first uses a device, and again when it uses another one; threads that it starts later, such as those
// of streams, inherit its cores. Mode 2, which gives threads of certain tasks cores of their own, is the same as 1 here. A range
// outside the cores of the process is warned of once and not used. Thread-safe.
#pragma once

#include <c10/core/Device.h>

#include <map>
#include <string_view>
#include <utility>

namespace torch_npu {

struct Affinity {
  bool binds = false;
  std::map<int64_t, std::pair<int64_t, int64_t>> ranges;  // by device; first and last core
};

// False, and `affinity` unchanged, if `text` has not the form mode[,force:0|1][,npu_affine:0|1][,npuX:a-b]...
bool parse_affinity(std::string_view text, Affinity& affinity);

// Binds the calling thread, if CPU_AFFINITY_CONF asks for that.
void bind_to_cores_of(c10::DeviceIndex device);

}  // namespace torch_npu
