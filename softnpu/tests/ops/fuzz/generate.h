// How cases are drawn. A call of pure noise is refused by its first argument; so most arguments of a case fit together, and
// others are changes of one argument of a call that succeeded.
#pragma once

#include "ops/fuzz/case.h"
#include "ops/fuzz/random.h"

namespace softnpu::fuzz {

// A new case of a function.
void generate(Random& random, int function, Case& one);

// Changes one thing.
void mutate(Random& random, Case& one);

}  // namespace softnpu::fuzz
