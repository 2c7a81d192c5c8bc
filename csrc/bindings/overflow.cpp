#include "core/overflow.h"

#include "bindings/bind.h"

namespace torch_npu::bindings {

void bind_overflow(pybind11::module_& module) {
  module.def("_npu_overflow_is_infinite", overflow_is_infinite);
  module.def("_npu_overflow_flag", overflow_flag, ReleaseGil());
  module.def("_npu_clear_overflow_flag", clear_overflow_flag);
  module.def("_npu_clear_overflow_flags", clear_overflow_flags);
  module.def("_npu_read_overflow_status", [](uintptr_t memory) { read_overflow_status(reinterpret_cast<void*>(memory)); });
}

}  // namespace torch_npu::bindings
