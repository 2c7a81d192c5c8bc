// Half precision at the speed of float32.
//
//   run_operation(executor, tensors);      // inside a KernelScope
//
// ATen's CPU kernels for products of float16 and bfloat16 tensors are 50 times as slow as those for float32. A row of the device
// table with `widened` therefore computes in float32: its kernel gets float32 copies of the tensors of half precision, and each
// result is rounded once. The copies live in host memory until the kernel ends. A large call runs in parts, so that the copies
// stay small. The parts follow from the shapes alone: bits do not depend on the number of threads or on the launching thread.
//
// A call whose floating inputs have several types goes to ATen unchanged, because ATen refuses most of those, unless the row says
// `mixed`. So does a call with `native` if the processor has instructions for products of the type.
#pragma once

#include "ops/calls/alias.h"

namespace softnpu::ops {

// Runs the kernel of a call on `tensors`, one per view. Throws on failure.
void run_operation(const Executor& executor, at::Tensor* tensors);

// Whether the processor has instructions for products of a type of half precision, which oneDNN uses.
bool multiplies_natively(aclDataType dtype);

}  // namespace softnpu::ops
