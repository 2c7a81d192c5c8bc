#include "core/memory/shared_memory.h"

#include "bindings/bind.h"

namespace torch_npu::bindings {
namespace {

namespace py = pybind11;

// The tuple that torch's _share_cuda_() returns.
py::tuple send(const c10::Storage& storage) {
  const SentStorage sent = [&] {
    const py::gil_scoped_release release;
    return send_storage(*storage.unsafeGetStorageImpl());
  }();
  if (sent.key.empty()) return py::make_tuple(sent.device, py::none(), 0, 0, py::none(), 0, py::none(), false);
  return py::make_tuple(sent.device, py::bytes(sent.key), sent.bytes, sent.offset, py::bytes(sent.ticket_handle), sent.ticket,
                        py::bytes(sent.event), !sent.event.empty());
}

c10::Storage receive(int64_t device, const std::string& key, size_t bytes, size_t offset, const std::string& ticket_handle,
                     uint64_t ticket, const std::string& event) {
  return receive_storage({checked_device(device), key, bytes, offset, ticket_handle, ticket, event});
}

}  // namespace

void bind_shared_memory(py::module_& module) {
  module.def("_npu_send_storage", send);
  module.def("_npu_receive_storage", receive, ReleaseGil());
  module.def("_npu_drop_sent_storage", drop_sent_storage);
  module.def("_npu_ipc_collect", collect_sent_memory, ReleaseGil());
}

}  // namespace torch_npu::bindings
