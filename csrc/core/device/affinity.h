// Binds threads to cores as CPU_AFFINITY_CONF (base/affinity.h) asks.
#pragma once

#include <c10/core/Device.h>

namespace torch_npu {

// Binds the calling thread to the cores of `device`. A thread calls this at its first use of a device, and again when it uses
// another device. Threads that it starts later, such as stream workers, inherit its cores. If the setting names no core of the
// process, one warning says so and the thread stays unbound. Thread-safe.
void bind_to_cores_of(c10::DeviceIndex device);

}  // namespace torch_npu
