// Overflow of floating-point results, and the device's overflow flag.
//
//   clear_overflow_flag();
//   ...                                  // operators
//   if (overflow_flag()) ...             // waits for the current stream
//
// The device has two modes. In one a result that is too large becomes infinite. In the other it becomes the largest finite
// number, and the device sets its overflow flag. A failed call of the device library throws.
#pragma once

#include <c10/macros/Export.h>

#include <cstddef>

namespace torch_npu {

// The mode of the current device: true if a result that is too large becomes infinite.
C10_EXPORT bool overflow_is_infinite();

// The flag of the current device. Waits for the current stream.
C10_EXPORT bool overflow_flag();

// Writes the flag of the current device to `memory`, kOverflowStatusBytes of device memory, in the order of the current stream.
// All bytes are 0 if the flag is clear. The first byte is not 0 if the flag is set.
inline constexpr size_t kOverflowStatusBytes = 64;
C10_EXPORT void read_overflow_status(void* memory);

// Clears the flag of the current device, or of every device in use, in the order of its current stream.
C10_EXPORT void clear_overflow_flag();
C10_EXPORT void clear_overflow_flags();

}  // namespace torch_npu
