// The private interfaces of libascendcl that libmsprofiler uses.
#pragma once

#include "runtime/driver.h"
#include "runtime/profiler.h"

namespace softnpu::prof {

// Null if another libascendcl, or another version of softnpu's, is loaded.
const SoftnpuDriver* driver();
const SoftnpuProfiler* profiler();

}  // namespace softnpu::prof
