// Limits of a chip, which softnpu imitates if SOFTNPU_CHIP_LIMITS is 1:
//
//   float64 and complex128   are copied and converted. Only tensors of one element are computed, as an AI CPU does; the launch
//                            refuses others with a message that names the switch
//   float16                  has neither infinity nor NaN: they become +-65504 and 0 in arguments and results
//   cube unit                matrix products and convolutions round float32 operands to float16, and sum in float32
//
// On a device in saturation mode (aclrtSetDeviceSatMode), float16, bfloat16 and float32 have neither infinity nor NaN. The other
// limits then do not apply.
//
// The overflow flag of the device is set if all arguments of an operator are finite and a result is infinite or NaN before it
// saturates. An infinite argument, such as a mask of -inf, sets no flag. Copies, fills, isinf, isfinite, and operators whose
// results have other types, such as comparisons, use numbers unchanged.
//
//   if (is_limited()) [[unlikely]] { SOFTNPU_RETURN_IF_ERROR(check_limits(executor)); }
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/calls/executor.h"

namespace softnpu::ops {

// Whether a limit may apply.
inline bool is_limited() { return __atomic_load_n(driver()->limits, __ATOMIC_RELAXED) != 0; }

// Checks that the chip computes in the data types of the call.
Status check_limits(const Executor& executor);

// Runs the kernel with the limits. `tensors` has one element per view.
void run_within_limits(const Executor& executor, at::Tensor* tensors);

}  // namespace softnpu::ops
