#include "core/graph/graph.h"

#include <torch/csrc/Generator.h>

#include "bindings/bind.h"
#include "bindings/stream_arguments.h"
#include "core/graph/task_group.h"
#include "core/memory/memory_pool.h"

namespace torch_npu::bindings {
namespace {

namespace py = pybind11;

aclmdlRICaptureMode mode_of(const std::string& name) {
  if (name == "global") return ACL_MODEL_RI_CAPTURE_MODE_GLOBAL;
  if (name == "thread_local") return ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL;
  TORCH_CHECK_VALUE(name == "relaxed", "capture_error_mode '", name, "' is unknown; it is 'global', 'thread_local' or 'relaxed'");
  return ACL_MODEL_RI_CAPTURE_MODE_RELAXED;
}

}  // namespace

void bind_graph(py::module_& module) {
  py::class_<NPUGraph>(module, "_NPUGraph")
      .def(py::init<>())
      .def(
          "capture_begin",
          [](NPUGraph& graph, std::optional<c10::MempoolId_t> pool, const std::string& mode) {
            graph.capture_begin(pool, mode_of(mode));
          },
          ReleaseGil())
      .def("capture_end", &NPUGraph::capture_end, ReleaseGil())
      .def("replay", &NPUGraph::replay, ReleaseGil())
      .def("reset", &NPUGraph::reset, ReleaseGil())
      .def("pool", &NPUGraph::pool)
      .def("debug_dump", &NPUGraph::debug_dump, ReleaseGil())
      .def("register_generator", [](NPUGraph& graph, const py::object& generator) {
        TORCH_CHECK_TYPE(THPGenerator_Check(generator.ptr()), "a torch.Generator is expected");
        graph.register_generator(THPGenerator_Unwrap(generator.ptr()));
      });
  module.def("_npu_new_pool_id", &new_pool_id);
  module.def("_npu_is_current_stream_capturing", [] { return is_capturing(getCurrentNPUStream()); });
  module.def("_npu_captures_exist", &captures_exist);
  module.def("_npu_task_group_begin",
             [](int64_t id, int64_t device, int64_t type) { begin_task_group(unpack_stream(id, device, type)); });
  module.def("_npu_task_group_end", [](int64_t id, int64_t device, int64_t type) {
    return reinterpret_cast<uintptr_t>(end_task_group(unpack_stream(id, device, type)));
  });
  module.def("_npu_task_update_begin", [](int64_t id, int64_t device, int64_t type, uintptr_t group) {
    begin_task_update(unpack_stream(id, device, type), reinterpret_cast<aclrtTaskGrp>(group));
  });
  module.def("_npu_task_update_end",
             [](int64_t id, int64_t device, int64_t type) { end_task_update(unpack_stream(id, device, type)); });
}

}  // namespace torch_npu::bindings
