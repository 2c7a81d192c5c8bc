#include "core/core_limits.h"

#include "bindings/bind.h"
#include "bindings/stream_arguments.h"

namespace torch_npu::bindings {
namespace {

namespace py = pybind11;

Core core_of(bool vector) { return vector ? Core::kVector : Core::kCube; }

}  // namespace

void bind_core_limits(py::module_& module) {
  module.def("_npu_core_limit", [](int64_t device, bool vector) { return core_limit(checked_device(device), core_of(vector)); });
  module.def("_npu_set_core_limit",
             [](int64_t device, bool vector, uint32_t count) { set_core_limit(checked_device(device), core_of(vector), count); });
  module.def("_npu_stream_core_limit", [](int64_t id, int64_t device, int64_t type, bool vector) {
    return core_limit(unpack_stream(id, device, type), core_of(vector));
  });
  module.def("_npu_set_stream_core_limit", [](int64_t id, int64_t device, int64_t type, bool vector, uint32_t count) {
    set_core_limit(unpack_stream(id, device, type), core_of(vector), count);
  });
  module.def("_npu_reset_stream_core_limits",
             [](int64_t id, int64_t device, int64_t type) { reset_core_limits(unpack_stream(id, device, type)); });
}

}  // namespace torch_npu::bindings
