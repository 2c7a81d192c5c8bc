// The limits of a chip that softnpu itself does not have, imitated where SOFTNPU_CHIP_LIMITS is 1:
//
//   float64 and complex128   are converted and moved. Only single numbers are computed, as an AI CPU does; the launch refuses the
//                            rest with a message that names the switch
//   float16                  has neither infinity nor NaN: as arguments and results they are +-65504 and 0
//   cube unit                matrix products and convolutions take float32 operands as float16, and sum in float32
//
// On a device that aclrtSetDeviceSatMode asked to saturate, float16, bfloat16 and float32 have neither infinity nor NaN; the
// other limits are not in force there.
//
// The overflow flag of the device is set where an operator has finite arguments and a result is infinite or NaN before it
// saturates. What is infinite already, such as a mask of -inf, sets no flag. Copies, fills, and operators that write no such
// type, such as comparisons, take numbers as they are; isinf and isfinite do so too.
//
//   if (is_limited()) [[unlikely]] { SOFTNPU_RETURN_IF_ERROR(check_limits(executor)); }
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/executor.h"

namespace softnpu::ops {

// Whether anything of this may hold.
inline bool is_limited() { return __atomic_load_n(driver()->limits, __ATOMIC_RELAXED) != 0; }

// Whether the chip has the data types of the call.
Status check_limits(const Executor& executor);

// Runs the kernel as the chip would. `tensors` has one element per view.
void run_within_limits(const Executor& executor, at::Tensor* tensors);

}  // namespace softnpu::ops
