#include "core/runtime_calls.h"

#include "bindings/bind.h"
#include "core/operator_dump.h"

namespace torch_npu::bindings {

void bind_runtime_calls(pybind11::module_& module) {
  module.def("_init_dump", init_dump, ReleaseGil());
  module.def("_set_dump", set_dump, ReleaseGil());
  module.def("_finalize_dump", finalize_dump, ReleaseGil());

  pybind11::module_ runtime = module.def_submodule("_npurt", "Functions of the device library that programs call directly.");
  runtime.def("npuHostRegister", [](uintptr_t pointer, uint64_t bytes, uint32_t flags) {
    return register_host_memory(reinterpret_cast<void*>(pointer), bytes, flags);
  });
  runtime.def("npuHostUnregister", [](uintptr_t pointer) { return unregister_host_memory(reinterpret_cast<void*>(pointer)); });
  runtime.def("npuStreamCreate", [](uintptr_t stream) { return create_stream(reinterpret_cast<aclrtStream*>(stream)); });
  runtime.def(
      "npuStreamDestroy", [](uintptr_t stream) { return destroy_stream(reinterpret_cast<aclrtStream>(stream)); }, ReleaseGil());
}

}  // namespace torch_npu::bindings
