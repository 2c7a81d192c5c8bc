// How this library reaches libascendcl, and how it says that something failed.
#pragma once

#include <string>

#include "aclnn/aclnn_base.h"
#include "runtime/base/status.h"
#include "runtime/driver.h"

namespace softnpu::ops {

const SoftnpuDriver* open_driver();

// The door to the device; null where the loaded libascendcl is not ours or is of another version.
inline const SoftnpuDriver* driver() {
  static const SoftnpuDriver* const driver = open_driver();
  return driver;
}

// Records the failure for aclGetRecentErrMsg and returns the code.
aclnnStatus fail(const char* function, const Status& status);

// Turns the exception that is being handled into a failure of `function`.
aclnnStatus fail_by_exception(const char* function);

// The first line of what an exception of torch says: without stack traces and file names.
std::string plain_message(const std::exception& error);

}  // namespace softnpu::ops
