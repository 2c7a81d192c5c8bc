// The text of the last failure, for aclGetRecentErrMsg: per thread, or per process if the configuration of aclInit says so.
//
//   set_recent_error("aclrtFree: double free ...", "aclrtFree");
//   take_recent_error();                                         // the text; the second call returns null
#pragma once

#include <string>

#include "runtime/base/options.h"

namespace softnpu {

// Also writes `message` to the log, as a line of `function`.
void set_recent_error(std::string message, const char* function, LogLevel level = LogLevel::kError);

// Returns the newest text and removes it; null if there is none. Valid until the next call of the same thread.
const char* take_recent_error();

}  // namespace softnpu
