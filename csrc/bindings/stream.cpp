#include "core/stream/stream.h"

#include <memory>

#include "bindings/bind.h"
#include "core/controls.h"
#include "core/stream/event.h"
#include "core/stream/unpooled_event.h"

namespace torch_npu::bindings {
namespace {

namespace py = pybind11;

// What torch.Stream is made of: (stream_id, device_index, device_type).
py::tuple pack(NPUStream stream) {
  const c10::StreamData3 data = stream.unwrap().pack3();
  return py::make_tuple(data.stream_id, data.device_index, static_cast<int64_t>(data.device_type));
}

NPUStream unpack(int64_t id, int64_t device, int64_t type) {
  return NPUStream(c10::Stream::unpack3(id, checked_device(device), static_cast<c10::DeviceType>(type)));
}

NPUStream current_stream(int64_t device) {
  const c10::DeviceIndex index = checked_device(device);
  return NPUStream(index, detail::thread_state().current_streams[static_cast<size_t>(index)]);
}

// The event is given by its event_id, 0 while it was never recorded.
uint64_t recorded_time(uintptr_t event) {
  TORCH_CHECK(event != 0, "the event must be recorded before its time can be told");
  return event_time(*reinterpret_cast<const PooledEvent*>(event));
}

OwnEvent own_event(bool resettable, int64_t device) {
  return OwnEvent(make_event(resettable ? EventKind::kResettable : EventKind::kShared, checked_device(device)));
}

template <void (*kCall)(const PooledEvent&, NPUStream)>
void on_stream(const PooledEvent& event, int64_t id, int64_t device, int64_t type) {
  kCall(event, unpack(id, device, type));
}

void bind_own_event(py::module_& module) {
  py::class_<PooledEvent, OwnEvent>(module, "_NPUOwnEvent")
      .def(py::init(&own_event))
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
  module.def("_npu_current_stream", [](int64_t device) { return pack(current_stream(device)); });
  module.def("_npu_default_stream", [](int64_t device) { return pack(getDefaultNPUStream(checked_device(device))); });
  module.def("_npu_set_stream", [](int64_t id, int64_t device, int64_t type) { setCurrentNPUStream(unpack(id, device, type)); });
  module.def("_npu_stream_handle", [](int64_t id, int64_t device, int64_t type) {
    return reinterpret_cast<uintptr_t>(unpack(id, device, type).stream());
  });
  module.def("_npu_stream_priority",
             [](int64_t id, int64_t device, int64_t type) { return unpack(id, device, type).priority(); });
  module.def("_npu_event_recorded_time", recorded_time);
  bind_own_event(module);
  module.def("_npu_stream_core_limit", [](int64_t id, int64_t device, int64_t type, bool vector) {
    return core_limit(unpack(id, device, type), vector ? Core::kVector : Core::kCube);
  });
  module.def("_npu_set_stream_core_limit", [](int64_t id, int64_t device, int64_t type, bool vector, uint32_t count) {
    set_core_limit(unpack(id, device, type), vector ? Core::kVector : Core::kCube, count);
  });
  module.def("_npu_reset_stream_core_limits",
             [](int64_t id, int64_t device, int64_t type) { reset_core_limits(unpack(id, device, type)); });
  module.def("_npu_external_stream", [](uintptr_t handle, int64_t device) {
    return pack(externalStream(reinterpret_cast<aclrtStream>(handle), checked_device(device)));
  });
}

}  // namespace torch_npu::bindings
