// The private interfaces of libascendcl that libmsprofiler uses.
#pragma once

#include "runtime/driver.h"
#include "runtime/profiler.h"

namespace softnpu::prof {

// Both are null if the loaded libascendcl is not softnpu's, or is of another version.
const SoftnpuDriver* driver();
const SoftnpuProfiler* profiler();

}  // namespace softnpu::prof
