#include <sys/syscall.h>
#include <unistd.h>

#include "bindings/bind.h"

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

}  // namespace torch_npu::bindings
