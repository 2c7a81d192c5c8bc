#include "acl/softnpu.h"
#include "aten/fallback.h"
#include "bindings/bind.h"
#include "core/options.h"

namespace torch_npu::bindings {

namespace py = pybind11;

void bind_settings(py::module_& module) {
  module.def("_fallback_stats", fallback_stats);
  module.def("_fallback_reset_stats", reset_fallback_stats);
  module.def("_fallback_strict", strict_fallback);
  module.def("_fallback_set_strict", set_strict_fallback);

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
