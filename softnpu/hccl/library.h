// The private interface of libascendcl that libhccl uses.
#pragma once

#include "runtime/driver.h"

namespace softnpu::hccl {

// The private driver of softnpu's libascendcl; null if another libascendcl, or another version of it, is loaded.
const SoftnpuDriver* driver();
// Whether the stream of the task that this thread runs was aborted.
bool task_is_aborted();

}  // namespace softnpu::hccl
