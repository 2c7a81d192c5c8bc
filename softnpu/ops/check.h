// What phase one refuses beyond null: data types and shapes that the kernel cannot take.
//
// Shapes and types that passed are remembered by their hash, so that a call like an earlier one costs some nanoseconds. ATen's
// structured operators are asked themselves, through their meta functions.
#pragma once

#include "ops/executor.h"

namespace softnpu::ops {

// Whether the arguments of `executor` fit its operation. Thread-safe.
Status check_arguments(const Executor& executor);

}  // namespace softnpu::ops
