// Makes a failing case simpler.
#pragma once

#include <functional>

#include "ops/fuzz/case.h"

namespace softnpu::fuzz {

// Tries up to `attempts` simplifications, and keeps those with which the case still fails.
void shrink(Case& one, int attempts, const std::function<bool(const Case&)>& fails);

}  // namespace softnpu::fuzz
