// Commands to a device that are not operators: time limits, delays, aborts.
//
//   set_op_timeout(5000);         // an operator that runs for more than 5 s fails
//
// A failed call of the device library throws. Thread-safe.
#pragma once

#include <c10/core/Device.h>
#include <c10/macros/Export.h>

#include <cstdint>

namespace torch_npu {

// Limits the run time of each operator.
C10_EXPORT void set_op_timeout(uint64_t milliseconds);

// Keeps the current stream busy for the given time.
C10_EXPORT void sleep_on_stream(uint64_t nanoseconds);

// Ends the pending work of a device with an error.
C10_EXPORT void abort_device(c10::DeviceIndex device);

}  // namespace torch_npu
