#include "core/stream/stream.h"

#include <memory>

#include "bindings/bind.h"
#include "bindings/stream_arguments.h"
#include "core/stream/event.h"
#include "core/stream/unpooled_event.h"

namespace torch_npu::bindings {
namespace {

namespace py = pybind11;

// `event` is the event_id of a torch.Event, which is 0 until the event is recorded.
uint64_t recorded_time(uintptr_t event) {
  TORCH_CHECK(event != 0, "the event must be recorded before its time can be told");
  return event_time(*reinterpret_cast<const PooledEvent*>(event));
}

UniqueEvent unpooled_event(bool resettable, int64_t device) {
  return UniqueEvent(make_event(resettable ? EventKind::kResettable : EventKind::kShared, checked_device(device)));
}

template <void (*kCall)(const PooledEvent&, NPUStream)>
void on_stream(const PooledEvent& event, int64_t id, int64_t device, int64_t type) {
  kCall(event, unpack_stream(id, device, type));
}

void bind_unpooled_event(py::module_& module) {
  py::class_<PooledEvent, UniqueEvent>(module, "_NPUUnpooledEvent")
      .def(py::init(&unpooled_event))
      .def_static("open", [](const py::bytes& handle,
                             int64_t device) { return open_event(std::string_view(handle), checked_device(device)); })
      .def("record", &on_stream<record_event>)
      .def("block", &on_stream<block_stream>)
      .def("reset", &on_stream<reset_event>)
      .def("query", &event_reached)
      .def("synchronize", &synchronize_event, ReleaseGil())
      .def("handle", [](const PooledEvent& event) { return py::bytes(handle_bytes(event)); })
      .def_property_readonly("address", [](const PooledEvent& event) { return reinterpret_cast<uintptr_t>(event.handle); });
}

}  // namespace

void bind_stream(py::module_& module) {
  module.def("_npu_current_stream", [](int64_t device) { return pack_stream(current_stream_of(checked_device(device))); });
  module.def("_npu_default_stream", [](int64_t device) { return pack_stream(getDefaultNPUStream(checked_device(device))); });
  module.def("_npu_set_stream",
             [](int64_t id, int64_t device, int64_t type) { setCurrentNPUStream(unpack_stream(id, device, type)); });
  module.def("_npu_stream_handle", [](int64_t id, int64_t device, int64_t type) {
    return reinterpret_cast<uintptr_t>(unpack_stream(id, device, type).stream());
  });
  module.def("_npu_stream_priority",
             [](int64_t id, int64_t device, int64_t type) { return unpack_stream(id, device, type).priority(); });
  module.def("_npu_event_recorded_time", recorded_time);
  bind_unpooled_event(module);
  module.def("_npu_external_stream", [](uintptr_t handle, int64_t device) {
    return pack_stream(externalStream(reinterpret_cast<aclrtStream>(handle), checked_device(device)));
  });
}

}  // namespace torch_npu::bindings
