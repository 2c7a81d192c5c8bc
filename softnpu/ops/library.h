// Access to libascendcl, and the report of failures to the client.
//
//   driver()->launch(stream, &kind, &payload, sizeof payload, cost);
//   return fail("aclnnAdd", Status(ACLNN_ERR_PARAM_NULLPTR, "argument 'self' is null"));
//
// Thread-safe.
#pragma once

#include <string>

#include "aclnn/aclnn_base.h"
#include "runtime/base/status.h"
#include "runtime/driver.h"

namespace softnpu::ops {

const SoftnpuDriver* open_driver();

// The private interface of the runtime (runtime/driver.h); null if the loaded libascendcl is not softnpu's, or of another
// version.
inline const SoftnpuDriver* driver() {
  static const SoftnpuDriver* const driver = open_driver();
  return driver;
}

// Records the failure for aclGetRecentErrMsg and returns the code.
aclnnStatus fail(const char* function, const Status& status);

// The same for the exception that is being handled. To be called in a catch block.
aclnnStatus fail_by_exception(const char* function);

// The first line of the message of an exception, without the stack trace and the file names of torch.
std::string plain_message(const std::exception& error);

}  // namespace softnpu::ops
