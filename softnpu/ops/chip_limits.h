// The limits of a chip that softnpu itself does not have, imitated where SOFTNPU_CHIP_LIMITS is 1:
//
//   float64 and complex128   refused by the launch, with a message that names the switch
//   float16                  has neither infinity nor NaN: as arguments and results they are +-65504 and 0
//   cube unit                matrix products and convolutions take float32 operands as float16, and sum in float32
//
//   if (chip_limits()) [[unlikely]] { SOFTNPU_RETURN_IF_ERROR(check_chip_limits(executor)); }
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/executor.h"

namespace softnpu::ops {

inline bool chip_limits() { return driver()->chip_limits; }

// Whether the chip has the data types of the call.
Status check_chip_limits(const Executor& executor);

// Runs the kernel as the chip would. `tensors` has one element per view.
void run_within_chip_limits(const Executor& executor, at::Tensor* tensors);

}  // namespace softnpu::ops
