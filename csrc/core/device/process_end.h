// Whether the process is ending, and with which exit status. core/exit_report.h sets both.
#pragma once

#include <c10/macros/Export.h>

namespace torch_npu {

// Whether report_failures_at_exit() was called. Destructors then keep memory instead of waiting for the work that uses it.
C10_EXPORT bool process_ends();
void note_process_end();

// Changes an exit status of 0 to 1. Called when a failure was printed.
void fail_at_exit();
bool fails_at_exit();

}  // namespace torch_npu
