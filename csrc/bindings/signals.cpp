#include "base/main_thread.h"
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

// Only the main thread handles signals. Other threads must not take the interpreter's lock: the interpreter unwinds a thread that
// asks for the lock while the interpreter ends.
void check_signals() {
  if (!is_main_thread() || !interpreter_lives()) return;
  const py::gil_scoped_acquire lock;
  if (PyErr_Occurred() != nullptr) return;
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
}

// KeyboardInterrupt is raised again by the next line of Python that this thread runs; the signal handler is not called again. Any
// other exception goes to sys.unraisablehook, as an exception of __del__ does.
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
