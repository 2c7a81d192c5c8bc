#include <sys/syscall.h>
#include <unistd.h>

#include "bindings/bind.h"
#include "core/stream/wait.h"

namespace torch_npu::bindings {
namespace {

namespace py = pybind11;

}  // namespace

bool interpreter_lives() {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsInitialized() != 0 && Py_IsFinalizing() == 0;
#else
  return Py_IsInitialized() != 0 && _Py_IsFinalizing() == 0;
#endif
}

// Only the main thread handles signals. The others must not even ask: a thread that wants the interpreter's lock while the
// interpreter ends does not come back.
void check_signals() {
  if (syscall(SYS_gettid) != getpid() || !interpreter_lives()) return;
  const py::gil_scoped_acquire lock;
  if (PyErr_Occurred() != nullptr) return;
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
}

// KeyboardInterrupt is raised by the next line of Python that this thread runs, without calling the handler again. Anything else
// that a handler raised goes where exceptions of __del__ go, with its text.
void keep_interrupt(std::exception_ptr interrupt) {
  if (!interpreter_lives()) return;
  const py::gil_scoped_acquire lock;
  const py::error_scope current;
  try {
    std::rethrow_exception(std::move(interrupt));
  } catch (py::error_already_set& error) {
    if (error.matches(PyExc_KeyboardInterrupt)) {
      PyThreadState_SetAsyncExc(PyThread_get_thread_ident(), error.type().ptr());
    } else {
      error.discard_as_unraisable("torch_npu, which gave memory back to the device");
    }
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
    PyErr_WriteUnraisable(nullptr);
  }
}

const InterpreterLock& interpreter_lock() {
  static constexpr InterpreterLock lock{
      .unlock = []() -> void* { return interpreter_lives() && PyGILState_Check() ? PyEval_SaveThread() : nullptr; },
      .lock = [](void* state) { PyEval_RestoreThread(static_cast<PyThreadState*>(state)); }};
  return lock;
}

}  // namespace torch_npu::bindings
