// The text of the last failure, as aclGetRecentErrMsg hands it out: per thread, or per process if aclInit's configuration says
// so.
#pragma once

#include <string>

#include "runtime/base/options.h"

namespace softnpu {

// Also writes the failure to the log, as a line of `function`.
void set_recent_error(std::string message, const char* function, LogLevel level = LogLevel::kError);

// The newest text, which is then forgotten; null if there is none. Valid until the calling thread asks again.
const char* take_recent_error();

}  // namespace softnpu
