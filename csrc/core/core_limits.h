// How many cores of a device operators may use.
//
//   set_core_limit(0, Core::kCube, 8);          // operators on npu:0 use at most 8 cube cores
//   set_core_limit(stream, Core::kVector, 4);   // and on this stream 4 vector cores
//
// A failed call of the device library throws. Thread-safe.
#pragma once

#include "core/stream/stream.h"

namespace torch_npu {

enum class Core : uint8_t { kCube, kVector };

C10_EXPORT uint32_t core_limit(c10::DeviceIndex device, Core core);
C10_EXPORT void set_core_limit(c10::DeviceIndex device, Core core, uint32_t count);

// A stream without a limit of its own has the limit of its device.
C10_EXPORT uint32_t core_limit(NPUStream stream, Core core);
C10_EXPORT void set_core_limit(NPUStream stream, Core core, uint32_t count);
C10_EXPORT void reset_core_limits(NPUStream stream);

}  // namespace torch_npu
