// Failures of the device that nobody was told of when the process ends.
//
// A failed operator is reported by the next call that waits for its stream. A program may end without such a call. Then the
// failure is printed on stderr, once, and an exit status of 0 becomes 1; other statuses stay. Python asks for the report before
// the interpreter ends; a process without Python reports in a handler of exit(). After _exit() and after a signal there is
// neither.
#pragma once

#include <c10/macros/Export.h>

#include <chrono>

namespace torch_npu {

// Prints the failures on all streams that were not reported yet, and returns whether there were any since the process started.
// Waits at most `patience` for streams that work; what they do later is lost. Streams that are captured are left alone. Can be
// interrupted, as every wait (core/stream/wait.h), and called again.
C10_EXPORT bool report_failures_at_exit(std::chrono::milliseconds patience);

// Whether it was called. Destructors then keep memory instead of waiting for the work that uses it.
C10_EXPORT bool process_ends();

// An exit status of 0 becomes 1: something was printed that the caller of this process must not miss.
void fail_at_exit();

// Called once, after the device library was initialised: the handler has to run before the library's own.
void watch_exit();

}  // namespace torch_npu
