// Changes a refused case as its error message asks.
#pragma once

#include <string_view>

#include "ops/fuzz/case.h"
#include "ops/fuzz/random.h"

namespace softnpu::fuzz {

// Sets the shape or the data type that the message of a refusal names. False if it names none.
bool repair(Random& random, Case& one, std::string_view message);

}  // namespace softnpu::fuzz
