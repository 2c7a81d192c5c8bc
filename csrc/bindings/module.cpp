#include "bindings/bind.h"
#include "core/device/late_errors.h"
#include "core/stream/launch_trace.h"
#include "core/stream/wait.h"

// Importing the module registers the device type with torch and uses no device.
PYBIND11_MODULE(_C, module) {
  torch_npu::bindings::bind_device(module);
  torch_npu::bindings::bind_memory(module);
  torch_npu::bindings::bind_memory_pool(module);
  torch_npu::bindings::bind_memory_snapshot(module);
  torch_npu::bindings::bind_shared_memory(module);
  torch_npu::bindings::bind_stream(module);
  torch_npu::bindings::bind_graph(module);
  torch_npu::bindings::bind_core_limits(module);
  torch_npu::bindings::bind_overflow(module);
  torch_npu::bindings::bind_profiler(module);
  torch_npu::bindings::bind_capture(module);
  torch_npu::bindings::bind_process_group(module);
  torch_npu::bindings::bind_runtime_calls(module);
  torch_npu::bindings::bind_settings(module);
  torch_npu::bindings::bind_cuda_alias(module);
  torch_npu::bindings::bind_tensor_constructor(module);
  torch_npu::set_python_location(torch_npu::bindings::python_location);
  torch_npu::set_interrupt_check(torch_npu::bindings::check_signals);
  torch_npu::set_interpreter_lock(&torch_npu::bindings::interpreter_lock());
  torch_npu::set_interrupt_keeper(torch_npu::bindings::keep_interrupt);
}
