// Queries about a device beyond core/device/device.h: its load, access to other devices, data types, damaged memory.
//
//   load_of(0).cube                              // percent
//
// A failed call of the device library throws. Thread-safe.
#pragma once

#include <c10/core/Device.h>
#include <c10/macros/Export.h>

#include <cstddef>
#include <cstdint>

namespace torch_npu {

// In percent. A negative number means that the device does not report the value.
struct Load {
  int32_t cube = -1;
  int32_t vector = -1;
  int32_t memory = -1;
};
C10_EXPORT Load load_of(c10::DeviceIndex device);

C10_EXPORT bool can_access_peer(c10::DeviceIndex device, c10::DeviceIndex peer);

// Whether the chip computes in bfloat16. Does not initialise the device library.
C10_EXPORT bool has_bf16();

// The number of memory ranges that the device reports as damaged.
C10_EXPORT size_t damaged_memory(c10::DeviceIndex device);

}  // namespace torch_npu
