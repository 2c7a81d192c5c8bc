// What else a program may ask of a device or tell it: limits of cores, load, overflow, time limits, host memory.
//
//   set_core_limit(0, Core::kCube, 8);
//   load_of(0).cube                              // percent
//
// Each is a call of the device library for the device it names; failures throw.
#pragma once

#include "core/stream/stream.h"

namespace torch_npu {

enum class Core : uint8_t { kCube, kVector };

C10_EXPORT uint32_t core_limit(c10::DeviceIndex device, Core core);
C10_EXPORT void set_core_limit(c10::DeviceIndex device, Core core, uint32_t count);
// Of a stream; without one of its own it has that of its device.
C10_EXPORT uint32_t core_limit(NPUStream stream, Core core);
C10_EXPORT void set_core_limit(NPUStream stream, Core core, uint32_t count);
C10_EXPORT void reset_core_limits(NPUStream stream);

// In percent; a negative number is one that the device does not know.
struct Load {
  int32_t cube = -1;
  int32_t vector = -1;
  int32_t memory = -1;
};
C10_EXPORT Load load_of(c10::DeviceIndex device);

C10_EXPORT bool can_access_peer(c10::DeviceIndex device, c10::DeviceIndex peer);

// Whether the chip computes in bfloat16. Starts no device.
C10_EXPORT bool has_bf16();

// Whether a result that is too large becomes infinite; if not it becomes the largest number, and a flag of the device is set.
C10_EXPORT bool overflow_is_infinite();
C10_EXPORT bool overflow_flag();
// Writes the flag of the current device, in the order of its current stream: kOverflowStatusBytes of device memory, which are not
// all 0 if it is set. The first byte is then not 0.
inline constexpr size_t kOverflowStatusBytes = 64;
C10_EXPORT void read_overflow_status(void* memory);
// In the order of the current stream: of the current device, or of every device in use.
C10_EXPORT void clear_overflow_flag();
C10_EXPORT void clear_overflow_flags();

// How many ranges of memory the device reports as damaged.
C10_EXPORT size_t damaged_memory(c10::DeviceIndex device);

// How long an operator may run.
C10_EXPORT void set_op_timeout(uint64_t milliseconds);

// Keeps the current stream busy for so long.
C10_EXPORT void sleep_on_stream(uint64_t nanoseconds);

// Ends what is pending on a device with an error.
C10_EXPORT void abort_device(c10::DeviceIndex device);

}  // namespace torch_npu
