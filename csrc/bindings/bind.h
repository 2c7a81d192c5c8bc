// torch_npu._C: the plugin's functions as Python sees them. Each bind_* adds one group of functions to the module.
//
// Bindings convert arguments and results and call one function of core/ or aten/. python/torch_npu gives the functions their
// public names and defaults. Functions that may wait for the device release the interpreter's lock.
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
void bind_core_limits(pybind11::module_& module);
void bind_profiler(pybind11::module_& module);
void bind_process_group(pybind11::module_& module);
void bind_overflow(pybind11::module_& module);
void bind_capture(pybind11::module_& module);
void bind_runtime_calls(pybind11::module_& module);
void bind_settings(pybind11::module_& module);

// _cuda_alias_begin(name) makes "cuda" mean npu, in C++ and in Python; _cuda_alias_end() ends that. `name` is the class of str
// that str(device) and device.type return for an npu in between.
void bind_cuda_alias(pybind11::module_& module);

// _set_tensor_constructor(function) replaces the constructor of torch.Tensor; None restores torch's own. A call with one tensor
// as its only argument still goes to torch's own.
void bind_tensor_constructor(pybind11::module_& module);

// Runs the Python handlers of signals that have arrived, on the main thread only, and throws what they raise; the interrupt check
// of core/stream/wait.h.
void check_signals();
// The interrupt keeper of core/device/late_errors.h. It takes an exception that a signal handler raised in a destructor.
void keep_interrupt(std::exception_ptr interrupt);
// See core/stream/wait.h.
const InterpreterLock& interpreter_lock();

// Whether the interpreter is initialised and has not begun to end.
bool interpreter_lives();

// The line of Python code that runs now, for errors of operators; see core/stream/launch_trace.h.
std::string python_location();

// Calls `observer(args, kwargs)` before the operator's kernel and, unless it returned None, the returned function with the
// results after the kernel; see aten/machinery/observe.h.
std::unique_ptr<torch::Library> observe_in_python(const std::string& op, pybind11::function observer);

}  // namespace torch_npu::bindings
