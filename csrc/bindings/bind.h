// torch_npu._C: the plugin's functions as Python sees them. Each bind_* adds one group of functions to the module.
//
// Nothing here decides anything: python/torch_npu gives the functions their public names and defaults. Functions that may wait
// for the device release the interpreter's lock.
#pragma once

#include <torch/csrc/utils/pybind.h>
#include <torch/library.h>

#include <exception>
#include <memory>
#include <string>

namespace torch_npu {
struct InterpreterLock;
}

namespace torch_npu::bindings {

using ReleaseGil = pybind11::call_guard<pybind11::gil_scoped_release>;

void bind_device(pybind11::module_& module);
void bind_memory(pybind11::module_& module);
void bind_memory_pool(pybind11::module_& module);
void bind_memory_snapshot(pybind11::module_& module);
void bind_shared_memory(pybind11::module_& module);
void bind_stream(pybind11::module_& module);
void bind_graph(pybind11::module_& module);
void bind_controls(pybind11::module_& module);
void bind_settings(pybind11::module_& module);

// "cuda" as another word for npu, in Python too, until it ends; `device_type` is what torch.device("npu").type is meanwhile.
void bind_cuda_alias(pybind11::module_& module);

// torch.Tensor(...) is function(...), None: torch's own again. Not so of a tensor, which it returns as an alias.
void bind_tensor_constructor(pybind11::module_& module);

// Runs what Python does on the signals that came, on the main thread, and throws what that raises; see core/stream/wait.h.
void check_signals();
// For what signal handlers raised in destructors; see core/late_errors.h.
void keep_interrupt(std::exception_ptr interrupt);
// See core/stream/wait.h.
const InterpreterLock& interpreter_lock();

// For the moment when the interpreter begins to end. It unwinds threads that come for its lock from then on, and C++ does not let
// them through its destructors but ends the process (Python up to 3.13). After this call such threads sleep instead.
void park_threads_at_exit();

// Whether Python runs and has not begun to end.
bool interpreter_lives();

// Where Python is now, for errors of operators; see core/stream/launch_trace.h.
std::string python_location();

// The operator's kernel for PrivateUse1 is called between `observer(args, kwargs)` and what that returned, which gets the
// results; None: nothing more to do. See aten/machinery/override.h for how long.
std::unique_ptr<torch::Library> observe(const std::string& op, pybind11::function observer);

}  // namespace torch_npu::bindings
