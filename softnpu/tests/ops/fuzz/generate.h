// Random cases. Phase one would refuse independent random arguments at the first one. So most arguments of a new case fit each
// other, and other cases change one argument of a call that succeeded.
#pragma once

#include "ops/fuzz/case.h"
#include "ops/fuzz/random.h"

namespace softnpu::fuzz {

// A new case of a function.
void generate(Random& random, int function, Case& one);

// Changes one argument.
void mutate(Random& random, Case& one);

}  // namespace softnpu::fuzz
