// Traces launches of operators, for error messages and logs.
//
//   acl::check(phase_two(...), "aclnnAdd");
//   after_launch(stream, "aclnnAdd", [&] { return shapes_and_dtypes(...); });
//
// Without one of these switches a launch pays one branch:
//   ASCEND_LAUNCH_BLOCKING=1       waits for the operator; the call that launched it throws its failure
//   TORCH_NPU_DEBUG=1              adds the Python line and the arguments of a launch to the error of its failed task
//   TORCH_NPU_LOGS=+dispatch       writes a line for each launch to stderr
//   ASCEND_GLOBAL_LOG_LEVEL=0, 1   writes a line for each launch to the log of the device library
//
// Without the first two, an error names the Python line only if the operator ran within the call that launched it, as small
// operators do on the software device. Otherwise it names the switches.
#pragma once

#include <string>
#include <vector>

#include "core/stream/stream.h"

namespace torch_npu {

namespace detail {

C10_EXPORT bool must_trace();
C10_EXPORT bool must_name();
C10_EXPORT void trace_launch(NPUStream stream, const char* op, std::string arguments);

}  // namespace detail

// True if after_launch() has something to do.
inline bool launches_are_traced() {
  static const bool traced = detail::must_trace();
  return traced;
}

// True if the error of a failed launch names the Python line and arguments of the launch (the first two switches).
inline bool failures_name_their_launch() {
  static const bool named = detail::must_name();
  return named;
}

// `describe` returns a std::string and is called only if launches are traced. With ASCEND_LAUNCH_BLOCKING=1, throws the failure
// of the operator.
template <typename Describe>
inline void after_launch(NPUStream stream, const char* op, Describe&& describe) {
  if (launches_are_traced()) [[unlikely]]
    detail::trace_launch(stream, op, describe());
}

// Collects the names of launches of all threads, oldest first, for tests. Works only while launches are traced. A name is
// returned once.
C10_EXPORT void record_launches(bool on);
C10_EXPORT std::vector<std::string> take_recorded_launches();

// Tells the software device how to get the Python line that runs now. Its errors name the line if the operator fails within the
// launching call; with TORCH_NPU_DEBUG=1 all its reports do. Called once, when the device library is initialised.
void tell_device_origins();

// Returns the Python line that runs now, such as "train.py:12 in step"; empty if no Python code called. Set once by the bindings.
using PythonLocation = std::string (*)();
C10_EXPORT void set_python_location(PythonLocation location);

}  // namespace torch_npu
