#include "core/controls.h"

#include "acl/symbol.h"
#include "aten/machinery/cube_math.h"
#include "base/options.h"
#include "bindings/bind.h"
#include "core/stream/sync_debug.h"

namespace torch_npu::bindings {
namespace {

namespace py = pybind11;

// Calls of the device library that programs make by themselves; each returns its code, 0 for success.
void bind_runtime(py::module_ runtime) {
  runtime.def("npuHostRegister", [](uintptr_t pointer, uint64_t bytes, uint32_t flags) {
    torch_npu::bind_device();
    return ACL_FN(aclrtHostRegisterV2)(reinterpret_cast<void*>(pointer), bytes, flags);
  });
  runtime.def("npuHostUnregister", [](uintptr_t pointer) {
    torch_npu::bind_device();
    return ACL_FN(aclrtHostUnregister)(reinterpret_cast<void*>(pointer));
  });
  runtime.def("npuStreamCreate", [](uintptr_t place) {
    torch_npu::bind_device();
    return ACL_FN(aclrtCreateStream)(reinterpret_cast<aclrtStream*>(place));
  });
  runtime.def(
      "npuStreamDestroy",
      [](uintptr_t stream) {
        torch_npu::bind_device();
        return ACL_FN(aclrtDestroyStream)(reinterpret_cast<aclrtStream>(stream));
      },
      ReleaseGil());
}

}  // namespace

void bind_controls(py::module_& module) {
  module.def("_npu_core_limit", [](int64_t device, bool vector) {
    return core_limit(checked_device(device), vector ? Core::kVector : Core::kCube);
  });
  module.def("_npu_set_core_limit", [](int64_t device, bool vector, uint32_t count) {
    set_core_limit(checked_device(device), vector ? Core::kVector : Core::kCube, count);
  });
  module.def("_npu_load", [](int64_t device) {
    const Load load = load_of(checked_device(device));
    return py::make_tuple(load.cube, load.vector, load.memory);
  });
  module.def("_npu_can_access_peer",
             [](int64_t device, int64_t peer) { return can_access_peer(checked_device(device), checked_device(peer)); });
  module.def("_npu_device_capability", [] { return options().device_capability; });
  module.def("_npu_has_bf16", has_bf16);
  module.def("_npu_overflow_is_infinite", overflow_is_infinite);
  module.def("_npu_overflow_flag", overflow_flag, ReleaseGil());
  module.def("_npu_clear_overflow_flag", clear_overflow_flag);
  module.def("_npu_clear_overflow_flags", clear_overflow_flags);
  module.def("_npu_read_overflow_status", [](uintptr_t memory) { read_overflow_status(reinterpret_cast<void*>(memory)); });
  module.def("_npu_damaged_memory", [](int64_t device) { return damaged_memory(checked_device(device)); });
  module.def("_npu_set_op_timeout", set_op_timeout);
  module.def("_npu_sleep", sleep_on_stream, ReleaseGil());
  module.def(
      "_npu_abort_device", [](int64_t device) { abort_device(checked_device(device)); }, ReleaseGil());

  module.def("_npu_sync_debug_mode", [] { return static_cast<int>(sync_debug_mode()); });
  module.def("_npu_set_sync_debug_mode", [](int mode) { set_sync_debug_mode(static_cast<SyncDebug>(mode)); });

  module.def("_npu_matmul_math", cube_math_type);
  module.def("_npu_set_matmul_math", [](int math) { set_matmul_math(static_cast<CubeMath>(math)); });
  module.def("_npu_conv_math", conv_math_type);
  module.def("_npu_set_conv_math", [](int math) { set_conv_math(static_cast<CubeMath>(math)); });

  bind_runtime(module.def_submodule("_npurt", "Calls of the device library that programs make by themselves."));
}

}  // namespace torch_npu::bindings
