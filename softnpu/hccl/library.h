// What libhccl needs of libascendcl beyond the C ABI.
#pragma once

#include "runtime/driver.h"

namespace softnpu::hccl {

// The private driver of softnpu's libascendcl; null where another libascendcl, or another version, was loaded.
const SoftnpuDriver* driver();

}  // namespace softnpu::hccl
