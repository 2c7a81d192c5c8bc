// The private interface of libascendcl that libhccl uses.
#pragma once

#include "runtime/driver.h"

namespace softnpu::hccl {

// The private driver of softnpu's libascendcl; null if another libascendcl, or another version of it, is loaded.
const SoftnpuDriver* driver();

}  // namespace softnpu::hccl
