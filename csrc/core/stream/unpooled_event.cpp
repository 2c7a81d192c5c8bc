#include "core/stream/unpooled_event.h"

#include <c10/util/Exception.h>

#include <cstring>

#include "acl/symbol.h"

namespace torch_npu {
namespace {

template <class Make>
PooledEvent* made_on(c10::DeviceIndex device, Make make) {
  auto event = std::make_unique<PooledEvent>(PooledEvent{nullptr, checked_device(device), Timing::kOff});
  const BoundDevice bound(event->device);
  make(&event->handle);
  return event.release();
}

}  // namespace

PooledEvent* make_event(EventKind kind, c10::DeviceIndex device) {
  return made_on(device, [kind](aclrtEvent* event) {
    if (kind == EventKind::kShared) {
      ACL_CALL(aclrtCreateEventExWithFlag, event, ACL_EVENT_IPC);
    } else {
      ACL_CALL(aclrtCreateEventWithFlag, event, ACL_EVENT_EXTERNAL);
    }
  });
}

PooledEvent* open_event(const aclrtIpcEventHandle& handle, c10::DeviceIndex device) {
  return made_on(device, [&handle](aclrtEvent* event) { ACL_CALL(aclrtIpcOpenEventHandle, handle, event); });
}

void destroy_event(PooledEvent* event) noexcept {
  const std::unique_ptr<PooledEvent> owner(event);
  if (event == nullptr || is_in_bad_fork()) return;
  acl::warn_if_failed(ACL_FN(aclrtDestroyEvent)(event->handle), "aclrtDestroyEvent");
}

aclrtIpcEventHandle event_handle(const PooledEvent& event) {
  aclrtIpcEventHandle handle{};
  ACL_CALL(aclrtIpcGetEventHandle, event.handle, &handle);
  return handle;
}

std::string handle_bytes(const PooledEvent& event) {
  const aclrtIpcEventHandle handle = event_handle(event);
  return {reinterpret_cast<const char*>(&handle), sizeof handle};
}

UniqueEvent open_event(std::string_view handle_bytes, c10::DeviceIndex device) {
  aclrtIpcEventHandle handle{};
  TORCH_CHECK(handle_bytes.size() == sizeof handle, "the handle of an event is ", sizeof handle, " bytes, but got ",
              handle_bytes.size(), "; give what Event.ipc_handle() returned");
  std::memcpy(&handle, handle_bytes.data(), sizeof handle);
  return UniqueEvent(open_event(handle, device));
}

void reset_event(const PooledEvent& event, NPUStream stream) {
  const BoundDevice bound(stream.device_index());
  ACL_CALL(aclrtResetEvent, event.handle, stream.stream());
}

}  // namespace torch_npu
