// Makes a failing case simpler.
#pragma once

#include <functional>

#include "ops/fuzz/case.h"

namespace softnpu::fuzz {

// Takes over each change to something simpler after which the case still fails, until `attempts` were made.
void shrink(Case& one, int attempts, const std::function<bool(const Case&)>& fails);

}  // namespace softnpu::fuzz
