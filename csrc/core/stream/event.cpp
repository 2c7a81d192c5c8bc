#include "core/stream/event.h"

#include <c10/util/Exception.h>

#include <mutex>
#include <vector>

#include "acl/symbol.h"
#include "core/stream/after_synchronize.h"
#include "core/stream/open_captures.h"
#include "core/stream/wait.h"

namespace torch_npu {
namespace {

class EventPool {
 public:
  static EventPool& of(c10::DeviceIndex device, Timing timing) {
    static auto* const pools = new std::array<std::array<EventPool, 2>, kMaxDevices>;
    return pools->at(static_cast<size_t>(device))[timing == Timing::kOn];
  }

  PooledEvent* take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return nullptr;
    PooledEvent* event = free_.back();
    free_.pop_back();
    return event;
  }

  void give(PooledEvent* event) {
    const std::lock_guard lock(mutex_);
    free_.push_back(event);
  }

 private:
  std::mutex mutex_;
  std::vector<PooledEvent*> free_;
};

}  // namespace

PooledEvent* take_event(c10::DeviceIndex device, Timing timing) {
  if (PooledEvent* event = EventPool::of(device, timing).take()) return event;
  const BoundDevice bound(device);
  auto event = std::make_unique<PooledEvent>(PooledEvent{nullptr, device, timing});
  const uint32_t flags = timing == Timing::kOn ? ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE : ACL_EVENT_SYNC;
  ACL_CALL(aclrtCreateEventExWithFlag, &event->handle, flags);
  return event.release();
}

void return_event(PooledEvent* event) noexcept {
  if (is_in_bad_fork()) return;
  EventPool::of(event->device, event->timing).give(event);
}

void record_event(const PooledEvent& event, NPUStream stream) {
  TORCH_CHECK(event.device == stream.device_index(), "an event of npu:", static_cast<int>(event.device),
              " cannot be recorded on a stream of ", stream.device(),
              "; an event belongs to the device where it was first recorded");
  const BoundDevice bound(stream.device_index());
  ACL_CALL(aclrtRecordEvent, event.handle, stream.stream());
}

void block_stream(const PooledEvent& event, NPUStream stream) {
  const BoundDevice bound(stream.device_index());
  ACL_CALL(aclrtStreamWaitEvent, stream.stream(), event.handle);
}

bool event_reached(const PooledEvent& event) {
  before_wait();
  aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
  ACL_CALL(aclrtQueryEventStatus, event.handle, &status);
  return status == ACL_EVENT_RECORDED_STATUS_COMPLETE;
}

void wait_for_event(const PooledEvent& event) {
  before_wait();
  const BoundDevice bound(event.device);
  wait_in_slices("aclrtSynchronizeEventWithTimeout",
                 [&event](int32_t milliseconds) { return ACL_FN(aclrtSynchronizeEventWithTimeout)(event.handle, milliseconds); });
}

void synchronize_event(const PooledEvent& event) {
  wait_for_event(event);
  after_synchronize();
}

double elapsed_ms(const PooledEvent& start, const PooledEvent& end) {
  const BoundDevice bound(start.device);
  float milliseconds = 0;
  ACL_CALL(aclrtEventElapsedTime, &milliseconds, start.handle, end.handle);
  return milliseconds;
}

uint64_t event_time(const PooledEvent& event) {
  const BoundDevice bound(event.device);
  uint64_t microseconds = 0;
  ACL_CALL(aclrtEventGetTimestamp, event.handle, &microseconds);
  return microseconds;
}

}  // namespace torch_npu
