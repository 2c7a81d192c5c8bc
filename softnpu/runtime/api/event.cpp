// Events, waits for values in memory, and time limits.
#include "runtime/stream/event.h"

#include <atomic>
#include <cstdint>

#include "api.h"
#include "runtime/device/process.h"
#include "runtime/stream/copy.h"
#include "runtime/stream/stream.h"
#include "runtime/stream/thread_state.h"

namespace softnpu::api {
namespace {

constexpr uint32_t kEventFlags = ACL_EVENT_SYNC | ACL_EVENT_CAPTURE_STREAM_PROGRESS | ACL_EVENT_TIME_LINE |
                                 ACL_EVENT_DEVICE_USE_ONLY | ACL_EVENT_EXTERNAL | ACL_EVENT_IPC |
                                 0x4;  // 0x4: an undocumented default of older clients

Result<aclrtEvent> create_event(Event::Family family, uint32_t flags, IpcEvent::Ref shared) {
  Result<Context*> context = current_context();
  if (!context.ok()) return context.take_status();
  if (flags == 0 || flags & ~kEventFlags) {
    return Status(ACL_ERROR_RT_PARAM_INVALID,
                  text("flag ", flags, " is 0 or has unknown bits; ACL_EVENT_* lists the known ones"));
  }
  if (flags & ACL_EVENT_IPC && shared == nullptr) {
    Result<IpcEvent::Ref> made = IpcEvent::create();
    if (!made.ok()) return made.take_status();
    shared = std::move(made.value());
  }
  Event* event = event_pool().take();
  if (event == nullptr) return Status(ACL_ERROR_RT_NO_EVENT_RESOURCE, "the process has too many events; destroy some");
  event->open(family, flags);
  event->attach(std::move(shared));
  return EventPool::handle_of(event_pool().publish(*event));
}

Status store(Result<aclrtEvent> made, aclrtEvent* event) {
  if (!made.ok()) return made.take_status();
  *event = made.value();
  return {};
}

Status refuse_extended(const Event& event) {
  if (event.family() == Event::Family::kPlain) return {};
  return {ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
          "events from aclrtCreateEventExWithFlag do not have this; they are simply recorded again"};
}

Status prefixed(const char* prefix, const Status& status) { return {status.code(), text(prefix, status.message())}; }

std::chrono::seconds wait_timeout() {
  return std::chrono::seconds(Process::wait_timeout_seconds.load(std::memory_order_relaxed));
}

struct ValueTask {
  uint64_t* address;
  uint64_t value;
  uint32_t condition;
};

uint64_t load_value(const ValueTask& task) { return std::atomic_ref<uint64_t>(*task.address).load(std::memory_order_acquire); }

bool value_is_there(const void* payload) {
  const auto& task = *static_cast<const ValueTask*>(payload);
  const uint64_t now = load_value(task);
  switch (task.condition) {
    case ACL_STREAM_WAIT_VALUE_GEQ:
      return int64_t(now - task.value) >= 0;
    case ACL_STREAM_WAIT_VALUE_EQ:
      return now == task.value;
    case ACL_STREAM_WAIT_VALUE_AND:
      return (now & task.value) != 0;
    default:  // ACL_STREAM_WAIT_VALUE_NOR
      return ~(now | task.value) != 0;
  }
}

constexpr SoftnpuTaskKind kValueWaitKind = {.name = "aclrtValueWait",
                                            .run = [](void*, char*) { return aclError(ACL_SUCCESS); },
                                            .release = nullptr,
                                            .ready = value_is_there,
                                            .flags = SOFTNPU_TASK_OUTSIDE,
                                            .visit = nullptr};
constexpr SoftnpuTaskKind kValueWriteKind = {
    .name = "aclrtValueWrite",
    .run = [](void* payload, char*) -> aclError {
      const auto& task = *static_cast<ValueTask*>(payload);
      std::atomic_ref<uint64_t>(*task.address).store(task.value, std::memory_order_release);
      return ACL_SUCCESS;
    },
    .release = nullptr,
    .ready = nullptr,
    .flags = 0,
    .visit =
        [](const void* payload, SoftnpuAccessVisitor visitor, void* context) {
          const auto& task = *static_cast<const ValueTask*>(payload);
          visitor(context, task.address, sizeof task.value, SOFTNPU_ACCESS_WRITES | SOFTNPU_ACCESS_ATOMIC);
        }};

Status submit_value_task(const SoftnpuTaskKind& kind, void* address, uint64_t value, uint32_t condition, Stream& stream) {
  if (reinterpret_cast<uintptr_t>(address) % sizeof value != 0) {
    return {ACL_ERROR_RT_ADDR_UNALIGNED, text("argument 'devAddr' (", address, ") is not a multiple of 8")};
  }
  Result<Place> place = locate_device(address, sizeof value, "devAddr");
  if (!place.ok()) return place.take_status();
  const ValueTask task{static_cast<uint64_t*>(place.value().address), value, condition};
  return stream.submit(kind, &task, sizeof task, 0);
}

}  // namespace

Status aclrtCreateEvent(aclrtEvent* event) {
  return store(create_event(Event::Family::kPlain, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE, nullptr), event);
}

Status aclrtCreateEventWithFlag(aclrtEvent* event, uint32_t flag) {
  return store(create_event(Event::Family::kPlain, flag, nullptr), event);
}

Status aclrtCreateEventExWithFlag(aclrtEvent* event, uint32_t flag) {
  return store(create_event(Event::Family::kExtended, flag, nullptr), event);
}

Status aclrtDestroyEvent(Event& event) {
  if (!event_pool().withdraw(Ref<Event>(event))) {
    return {ACL_ERROR_RT_INVALID_HANDLE, "the event is being destroyed by another thread"};
  }
  event.close();
  event_pool().give_back(event);
  return {};
}

Status aclrtRecordEvent(Event& event, Stream& stream) { return event.record(stream); }

Status aclrtResetEvent(Event& event, Stream& stream) {
  SOFTNPU_RETURN_IF_ERROR(refuse_extended(event));
  if (!event.can_reset())
    return {ACL_ERROR_RT_PARAM_INVALID, "only events created with the flag ACL_EVENT_SYNC or ACL_EVENT_EXTERNAL can be reset"};
  return event.reset(stream);
}

Status aclrtStreamWaitEvent(Stream& stream, Event& event) { return event.wait(stream, wait_timeout()); }

Status aclrtSynchronizeEvent(Event& event) { return event.synchronize(Deadline::never()); }

Status aclrtSynchronizeEventWithTimeout(Event& event, int32_t timeout) {
  Result<Deadline> deadline = Deadline::after_milliseconds(timeout);
  if (!deadline.ok()) return deadline.take_status();
  return event.synchronize(deadline.value());
}

Status aclrtQueryEvent(Event& event, aclrtEventStatus* status) {
  SOFTNPU_RETURN_IF_ERROR(refuse_extended(event));
  SOFTNPU_RETURN_IF_ERROR(event.check_not_captured());
  const bool is_reached = event.reached();
  *status = is_reached ? ACL_EVENT_STATUS_COMPLETE : ACL_EVENT_STATUS_NOT_READY;
  return is_reached ? Status() : event.check_recorder();
}

Status aclrtQueryEventStatus(Event& event, aclrtEventRecordedStatus* status) {
  SOFTNPU_RETURN_IF_ERROR(event.check_not_captured());
  const bool is_reached = event.reached();
  *status = is_reached ? ACL_EVENT_RECORDED_STATUS_COMPLETE : ACL_EVENT_RECORDED_STATUS_NOT_READY;
  return is_reached ? Status() : event.check_recorder();
}

Status aclrtQueryEventWaitStatus(Event& event, aclrtEventWaitStatus* status) {
  SOFTNPU_RETURN_IF_ERROR(refuse_extended(event));
  *status = event.waits_are_over() ? ACL_EVENT_WAIT_STATUS_COMPLETE : ACL_EVENT_WAIT_STATUS_NOT_READY;
  return {};
}

Status aclrtEventElapsedTime(float* ms, Event& startEvent, Event& endEvent) {
  Result<uint64_t> start = startEvent.timestamp();
  if (!start.ok()) return prefixed("argument 'startEvent': ", start.take_status());
  Result<uint64_t> end = endEvent.timestamp();
  if (!end.ok()) return prefixed("argument 'endEvent': ", end.take_status());
  if (end.value() < start.value()) {
    return {ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL, "the end event was reached before the start event; were they exchanged?"};
  }
  *ms = float(double(end.value() - start.value()) * 1e-6);
  return {};
}

Status aclrtEventGetTimestamp(Event& event, uint64_t* timestamp) {
  Result<uint64_t> stamp = event.timestamp();
  if (!stamp.ok()) return stamp.take_status();
  *timestamp = stamp.value() / 1000;  // microseconds
  return {};
}

Status aclrtGetEventId(Event& event, uint32_t* eventId) {
  *eventId = event.slot();
  return {};
}

Status aclrtIpcGetEventHandle(Event& event, aclrtIpcEventHandle* handle) {
  const IpcEvent::Ref shared = event.shared();
  if (shared == nullptr) return {ACL_ERROR_RT_PARAM_INVALID, "the event is not shared; create it with the flag ACL_EVENT_IPC"};
  Result<aclrtIpcEventHandle> made = shared->handle();
  if (!made.ok()) return made.take_status();
  *handle = made.value();
  return {};
}

Status aclrtIpcOpenEventHandle(aclrtIpcEventHandle handle, aclrtEvent* event) {
  Result<IpcEvent::Ref> opened = IpcEvent::open(handle);
  if (!opened.ok()) return opened.take_status();
  return store(create_event(Event::Family::kExtended, ACL_EVENT_IPC, std::move(opened.value())), event);
}

Status aclrtSetOpWaitTimeout(uint32_t timeout) {
  Process::wait_timeout_seconds.store(timeout, std::memory_order_relaxed);
  return {};
}

// A task cannot be interrupted: the limit is accepted and has no effect.
Status aclrtSetOpExecuteTimeOut(uint32_t /*timeout*/) { return {}; }

Status aclrtSetOpExecuteTimeOutV2(uint64_t timeout, uint64_t* actualTimeout) {
  *actualTimeout = timeout;
  return {};
}

Status aclrtValueWait(void* devAddr, uint64_t value, uint32_t flag, Stream& stream) {
  if (flag > ACL_STREAM_WAIT_VALUE_NOR)
    return {ACL_ERROR_RT_PARAM_INVALID, text("flag ", flag, " is not one of ACL_STREAM_WAIT_VALUE_*")};
  return submit_value_task(kValueWaitKind, devAddr, value, flag, stream);
}

Status aclrtValueWrite(void* devAddr, uint64_t value, uint32_t flag, Stream& stream) {
  if (flag != 0) return {ACL_ERROR_RT_PARAM_INVALID, text("flag ", flag, " must be 0")};
  return submit_value_task(kValueWriteKind, devAddr, value, 0, stream);
}

}  // namespace softnpu::api
