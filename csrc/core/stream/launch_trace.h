// What happens after an operator was put on a stream: nothing, unless a switch asks for more.
//
//   acl::check(phase_two(...), "aclnnAdd");
//   after_launch(stream, "aclnnAdd", [&] { return shapes_and_dtypes(...); });
//
// ASCEND_LAUNCH_BLOCKING=1 waits for the operator, so that its failure is thrown by the call that made it. TORCH_NPU_DEBUG=1
// keeps the order of launches and remembers, for each, the Python line and what `describe` says; the exception of a failed task
// then names them. With neither, the exception names the Python line of an operator that ran within the call that launched it, as
// small ones do on the software device, and else says which switch to set. TORCH_NPU_LOGS=+dispatch writes a line for each
// launch.
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

// True if the failure of a launch names that launch by itself: what looks for it earlier has nothing to add.
inline bool failures_name_their_launch() {
  static const bool named = detail::must_name();
  return named;
}

// `describe` returns a std::string and is called only if launches are traced. Throws the failure of the operator, if it waits.
template <typename Describe>
inline void after_launch(NPUStream stream, const char* op, Describe&& describe) {
  if (launches_are_traced()) [[unlikely]]
    detail::trace_launch(stream, op, describe());
}

// Names of the launches of all threads while recording is on, oldest first; taken ones are forgotten. Needs one of the two
// switches.
C10_EXPORT void record_launches(bool on);
C10_EXPORT std::vector<std::string> take_recorded_launches();

// Lets the software device name the Python line of a launch: where the operator fails within that launch, and in its other
// reports where TORCH_NPU_DEBUG=1 asks for that. Called once, when the device library is initialised.
void tell_device_origins();

// Where Python is now, such as "train.py:12 in step"; empty if no Python code called. Set once by the bindings.
using PythonLocation = std::string (*)();
C10_EXPORT void set_python_location(PythonLocation location);

}  // namespace torch_npu
