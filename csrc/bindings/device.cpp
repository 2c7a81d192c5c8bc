#include "core/device/device.h"

#include <ATen/Context.h>
#include <torch/csrc/utils/device_lazy_init.h>

#include "acl/library.h"
#include "base/options.h"
#include "bindings/bind.h"
#include "core/device_commands.h"
#include "core/device_queries.h"
#include "core/exit_report.h"
#include "core/graph/generator.h"
#include "core/stream/all_work.h"

namespace torch_npu::bindings {
namespace {

namespace py = pybind11;

void init() {
  torch::utils::register_fork_handler_for_device_init(kDeviceType);
  at::globalContext().lazyInitDevice(kDeviceType);  // torch asks whether memory is pinned only after this call
  initialize();
}

py::dict library() {
  const acl::LibraryInfo& info = acl::library_info();
  py::dict dict;
  dict["path"] = info.path;
  dict["origin"] = info.origin;
  dict["version"] = info.version;
  dict["soc"] = info.soc;
  return dict;
}

std::string show(const DeviceProperties& properties) {
  return c10::str("_NPUDeviceProperties(name='", properties.name, "', total_memory=", properties.total_memory >> 20,
                  "MB, cube_core_num=", properties.cube_core_num, ", vector_core_num=", properties.vector_core_num,
                  ", L2_cache_size=", properties.l2_cache_size >> 20, "MB, uuid=", properties.uuid, ")");
}

}  // namespace

void bind_device(py::module_& module) {
  py::class_<DeviceProperties> properties(module, "_NPUDeviceProperties");
  properties.def_readonly("name", &DeviceProperties::name)
      .def_readonly("total_memory", &DeviceProperties::total_memory)
      .def_readonly("multi_processor_count", &DeviceProperties::cube_core_num)
      .def_readonly("cube_core_num", &DeviceProperties::cube_core_num)
      .def_readonly("vector_core_num", &DeviceProperties::vector_core_num)
      .def_readonly("L2_cache_size", &DeviceProperties::l2_cache_size)
      .def_readonly("uuid", &DeviceProperties::uuid)
      .def("__repr__", show)
      .def(py::pickle(
          [](const DeviceProperties& from) {
            return py::make_tuple(from.name, from.total_memory, from.cube_core_num, from.vector_core_num, from.l2_cache_size,
                                  from.uuid);
          },
          [](const py::tuple& state) {
            TORCH_CHECK(state.size() == 6, "_NPUDeviceProperties are made of 6 values, not of ", state.size());
            return DeviceProperties{state[0].cast<std::string>(), state[1].cast<uint64_t>(), state[2].cast<int64_t>(),
                                    state[3].cast<int64_t>(),     state[4].cast<int64_t>(),  state[5].cast<std::string>()};
          }));
  // Properties that only CUDA devices have.
  for (const char* name : {"major", "minor", "is_multi_gpu_board", "is_integrated", "max_threads_per_multi_processor",
                           "warp_size", "regs_per_multiprocessor", "gcnArchName"}) {
    properties.def_property_readonly(name, [](const DeviceProperties&) { return py::none(); });
  }

  module.def("_npu_init", init);
  module.def("_npu_is_initialized", is_initialized);
  module.def("_npu_is_in_bad_fork", is_in_bad_fork);
  module.def("_npu_device_count", device_count);
  module.def("_npu_current_device", current_device);
  module.def("_npu_set_device", [](int64_t device) { set_device(checked_device(device)); });
  module.def("_npu_exchange_device", [](int64_t device) { return exchange_device(checked_device(device)); });
  module.def(
      "_npu_synchronize", [](int64_t device) { synchronize_device(checked_device(device)); }, py::arg("device") = -1,
      ReleaseGil());
  module.def(
      "_npu_report_failures_at_exit",
      [](int64_t patience) { return report_failures_at_exit(std::chrono::milliseconds(patience)); }, ReleaseGil());
  module.def("_npu_device_properties", [](int64_t device) { return device_properties(checked_device(device)); });
  module.def("_npu_library_info", library);
  module.def("_npu_is_support_inf_nan", supports_inf_nan);
  module.def("_get_cann_version", acl::package_version, py::arg("module") = "CANN");
  module.def("_npu_default_generator",
             [](int64_t device) { return getDefaultNPUGenerator(device == -1 ? -1 : checked_device(device)); });
  module.def("_npu_seed_default_generators", seed_default_generators);

  module.def("_npu_load", [](int64_t device) {
    const Load load = load_of(checked_device(device));
    return py::make_tuple(load.cube, load.vector, load.memory);
  });
  module.def("_npu_can_access_peer",
             [](int64_t device, int64_t peer) { return can_access_peer(checked_device(device), checked_device(peer)); });
  module.def("_npu_device_capability", [] { return options().device_capability; });
  module.def("_npu_has_bf16", has_bf16);
  module.def("_npu_damaged_memory", [](int64_t device) { return damaged_memory(checked_device(device)); });

  module.def("_npu_set_op_timeout", set_op_timeout);
  module.def("_npu_sleep", sleep_on_stream, ReleaseGil());
  module.def(
      "_npu_abort_device", [](int64_t device) { abort_device(checked_device(device)); }, ReleaseGil());
}

}  // namespace torch_npu::bindings
