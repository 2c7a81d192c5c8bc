// Keeps threads that still run operators from ending the process while the Python interpreter ends.
//
//   park_threads_at_exit();      // when the interpreter begins to end
//
// From that moment on the interpreter unwinds each thread that asks for its lock (Python up to 3.13). C++ does not allow this
// unwinding to pass a noexcept function, such as a destructor, and calls std::terminate(). After park_threads_at_exit() such a
// thread sleeps instead, until the process exits.
#pragma once

#include <c10/macros/Export.h>

namespace torch_npu {

// Installs a terminate handler. A thread that is unwound without an exception sleeps; the main thread, and a thread with an
// exception, go on to the handler that was installed before. Later calls have no effect. Not thread-safe.
C10_EXPORT void park_threads_at_exit();

}  // namespace torch_npu
