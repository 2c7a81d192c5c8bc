// The limits of a chip that softnpu itself does not have, imitated where SOFTNPU_CHIP_LIMITS is 1:
//
//   float64 and complex128   refused by the launch, with a message that names the switch
//   float16                  has neither infinity nor NaN: as arguments and results they are +-65504 and 0
//   cube unit                matrix products and convolutions take float32 operands as float16, and sum in float32
//
// Those of float16 alone hold on a device that aclrtSetDeviceSatMode asked to saturate.
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
