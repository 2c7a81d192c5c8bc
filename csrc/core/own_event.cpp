#include "core/own_event.h"

#include <c10/util/Exception.h>

#include <cstring>

#include "acl/symbol.h"
#include "core/uncached_memory.h"
#include "core/wait.h"

namespace torch_npu {

OwnEvent::OwnEvent(Kind kind, c10::DeviceIndex device) : device_(checked_device(device)) {
  const BoundDevice bound(device_);
  if (kind == Kind::kShared) {
    ACL_CALL(aclrtCreateEventExWithFlag, &event_, ACL_EVENT_IPC);
  } else {
    ACL_CALL(aclrtCreateEventWithFlag, &event_, ACL_EVENT_SYNC);
  }
}

OwnEvent OwnEvent::open(const std::string& handle, c10::DeviceIndex device) {
  aclrtIpcEventHandle given{};
  TORCH_CHECK(handle.size() == sizeof given, "the handle of an event is ", sizeof given, " bytes, but got ", handle.size(),
              "; give what Event.ipc_handle() returned");
  std::memcpy(&given, handle.data(), sizeof given);
  const c10::DeviceIndex index = checked_device(device);
  const BoundDevice bound(index);
  aclrtEvent event = nullptr;
  ACL_CALL(aclrtIpcOpenEventHandle, given, &event);
  return {index, event};
}

OwnEvent::~OwnEvent() {
  if (event_ != nullptr && !is_in_bad_fork()) ACL_FN(aclrtDestroyEvent)(event_);
}

void OwnEvent::record(NPUStream stream) const {
  const BoundDevice bound(stream.device_index());
  ACL_CALL(aclrtRecordEvent, event_, stream.stream());
}

void OwnEvent::block(NPUStream stream) const {
  const BoundDevice bound(stream.device_index());
  ACL_CALL(aclrtStreamWaitEvent, stream.stream(), event_);
}

void OwnEvent::reset(NPUStream stream) const {
  const BoundDevice bound(stream.device_index());
  ACL_CALL(aclrtResetEvent, event_, stream.stream());
}

bool OwnEvent::query() const {
  aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
  ACL_CALL(aclrtQueryEventStatus, event_, &status);
  return status == ACL_EVENT_RECORDED_STATUS_COMPLETE;
}

void OwnEvent::synchronize() const {
  const BoundDevice bound(device_);
  wait_in_slices("aclrtSynchronizeEventWithTimeout",
                 [this](int32_t milliseconds) { return ACL_FN(aclrtSynchronizeEventWithTimeout)(event_, milliseconds); });
  after_synchronize();
}

std::string OwnEvent::handle() const {
  aclrtIpcEventHandle handle{};
  ACL_CALL(aclrtIpcGetEventHandle, event_, &handle);
  return {reinterpret_cast<const char*>(&handle), sizeof handle};
}

}  // namespace torch_npu
