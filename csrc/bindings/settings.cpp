#include "acl/softnpu.h"
#include "aten/machinery/cube_math.h"
#include "aten/machinery/fallback.h"
#include "aten/machinery/kernel_override.h"
#include "base/options.h"
#include "bindings/bind.h"
#include "core/stream/launch_trace.h"
#include "core/stream/sync_debug.h"
#include "core/thread_parking.h"

namespace torch_npu::bindings {

namespace py = pybind11;

void bind_settings(py::module_& module) {
  module.def("_fallback_stats", fallback_stats);
  module.def("_fallback_reset_stats", reset_fallback_stats);
  module.def("_fallback_strict", strict_fallback);
  module.def("_fallback_set_strict", set_strict_fallback);

  // For torch.npu.debug. Both return a torch::Library, for which torch has a Python class; the kernels are removed with it.
  module.def("_force_fallback", force_fallback);
  module.def("_observe", observe_in_python);
  module.def("_python_location", python_location);
  module.def("_debug_options", [] {
    const Options& given = options();
    py::dict values;
    values["force_fallback"] = given.force_fallback;
    values["compare"] = given.compare;
    values["compare_raise"] = given.compare_raise;
    values["compare_dir"] = given.compare_dir;
    values["print_ops"] = given.print_ops;
    return values;
  });

  module.def("_transfers_to_npu", [] { return options().transfer_to_npu; });

  module.def("_npu_sync_debug_mode", [] { return static_cast<int>(sync_debug_mode()); });
  module.def("_npu_set_sync_debug_mode", [](int mode) { set_sync_debug_mode(static_cast<SyncDebug>(mode)); });

  module.def("_npu_matmul_math", cube_math_type);
  module.def("_npu_set_matmul_math", [](int math) { set_matmul_math(static_cast<CubeMath>(math)); });
  module.def("_npu_conv_math", conv_math_type);
  module.def("_npu_set_conv_math", [](int math) { set_conv_math(static_cast<CubeMath>(math)); });

  module.def("_record_launches", record_launches);
  module.def("_take_recorded_launches", take_recorded_launches);

  module.def("_softnpu_control", acl::softnpu_control, ReleaseGil());

  module.def("_park_threads_at_exit", park_threads_at_exit);

  // Rows of docs/environment.md: name, values, default, effect.
  module.def("_option_docs", [] {
    py::list rows;
    for (const OptionDoc& doc : option_docs()) rows.append(py::make_tuple(doc.name, doc.values, doc.standard, doc.effect));
    return rows;
  });
}

}  // namespace torch_npu::bindings
