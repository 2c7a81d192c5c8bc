// The fault rule `wrong`: gives one element of the output of an operator another value.
//
//   make_wrong(describe, payload);       // after the operator ran, on the same thread
//
// The element is the middle one (number n / 2 of n, in the order of the sizes) of the first output that has elements. Its value x
// becomes
//   - x + 1 if |x| < 1, -x if |x| >= 1, and 0 if x is infinite or NaN, for floating-point numbers and for the real part of
//     complex numbers;
//   - the other value of a bool;
//   - x with its lowest bit changed, for integers;
//   - x with its highest exponent bit changed, for floating-point numbers of eight bits.
#pragma once

#include "runtime/operators.h"

namespace softnpu {

void make_wrong(SoftnpuOperatorDescriber describe, const void* payload);

}  // namespace softnpu
