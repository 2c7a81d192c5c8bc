// Reports failures of the device that no call has reported when the process ends.
//
//   report_failures_at_exit(std::chrono::seconds(2));
//
// The next call that waits for a stream reports the failure of its operators. A program may end without such a call. Then the
// failure is printed on stderr, once, and an exit status of 0 becomes 1; other statuses stay. The Python package calls
// report_failures_at_exit() before the interpreter ends. A process without Python reports in a handler of exit(). After _exit()
// and after a signal there is no report.
#pragma once

#include <c10/macros/Export.h>

#include <chrono>

namespace torch_npu {

// Prints the failures of all streams that were not reported yet. Returns whether anything was printed since the process started.
// Waits at most `patience` for busy streams; their later failures are not reported. Captured streams are skipped. Can be
// interrupted, as every wait (core/stream/wait.h), and called again.
C10_EXPORT bool report_failures_at_exit(std::chrono::milliseconds patience);

// Installs the handler of exit(). Called once, after the device library was initialised, so that it runs before the handlers of
// the library.
void watch_exit();

}  // namespace torch_npu
