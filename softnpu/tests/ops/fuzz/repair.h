// Learns from refusals.
#pragma once

#include <string_view>

#include "ops/fuzz/case.h"
#include "ops/fuzz/random.h"

namespace softnpu::fuzz {

// Changes what a refusal complains about: a shape or a data type. False if the message does not tell.
bool repair(Random& random, Case& one, std::string_view message);

}  // namespace softnpu::fuzz
