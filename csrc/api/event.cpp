#include "core/stream/event.h"

#include <utility>

#include "core/stream/unpooled_event.h"
#include "torch_npu/csrc/core/npu/NPUEvent.h"

namespace c10_npu {
namespace {

torch_npu::NPUStream core_stream(const NPUStream& stream) { return torch_npu::NPUStream(stream.unwrap()); }

// A shared event does not come from the pool: other processes could still open it after it was returned.
bool is_shared(unsigned int flags) { return (flags & ACL_EVENT_IPC) != 0; }

void release(torch_npu::PooledEvent* event, unsigned int flags) noexcept {
  if (is_shared(flags)) return torch_npu::destroy_event(event);
  if (event != nullptr) torch_npu::return_event(event);
}

}  // namespace

NPUEvent::NPUEvent() : NPUEvent(ACL_EVENT_SYNC) {}

NPUEvent::NPUEvent(unsigned int flags) : flags_(flags) {
  constexpr unsigned int kKnown =
      ACL_EVENT_SYNC | ACL_EVENT_CAPTURE_STREAM_PROGRESS | ACL_EVENT_TIME_LINE | ACL_EVENT_EXTERNAL | ACL_EVENT_IPC;
  TORCH_CHECK((flags & ~kKnown) == 0, "an NPU event has no flags ", flags & ~kKnown, "; give ACL_EVENT_SYNC, with or without ",
              "ACL_EVENT_TIME_LINE for timing, or ACL_EVENT_IPC");
  TORCH_CHECK(!is_shared(flags) || flags == ACL_EVENT_IPC, "an event that other processes can open has no timing: give ",
              "ACL_EVENT_IPC by itself");
}

NPUEvent::NPUEvent(c10::DeviceIndex device_index, const aclrtIpcEventHandle* handle)
    : flags_(ACL_EVENT_IPC), was_recorded_(true) {
  TORCH_CHECK(handle != nullptr, "the handle of another process's event is null");
  event_ = torch_npu::open_event(*handle, device_index);
}

NPUEvent::NPUEvent(NPUEvent&& other)
    : flags_(other.flags_), was_recorded_(other.was_recorded_), event_(std::exchange(other.event_, nullptr)) {}

NPUEvent& NPUEvent::operator=(NPUEvent&& other) {
  std::swap(flags_, other.flags_);
  std::swap(was_recorded_, other.was_recorded_);
  std::swap(event_, other.event_);
  return *this;
}

NPUEvent::~NPUEvent() { release(event_, flags_); }

void NPUEvent::make(c10::DeviceIndex device) {
  if (event_ != nullptr) return;
  const auto timing = (flags_ & ACL_EVENT_TIME_LINE) != 0 ? torch_npu::Timing::kOn : torch_npu::Timing::kOff;
  event_ =
      is_shared(flags_) ? torch_npu::make_event(torch_npu::EventKind::kShared, device) : torch_npu::take_event(device, timing);
}

std::optional<at::Device> NPUEvent::device() const {
  if (event_ == nullptr) return std::nullopt;
  return torch_npu::npu_device(event_->device);
}

c10::DeviceIndex NPUEvent::device_index() const { return event_ == nullptr ? -1 : event_->device; }

aclrtEvent NPUEvent::event() const { return event_ == nullptr ? nullptr : event_->handle; }

bool NPUEvent::query() const { return event_ == nullptr || torch_npu::event_reached(*event_); }

void NPUEvent::record() { record(getCurrentNPUStream()); }

void NPUEvent::record(const NPUStream& stream) {
  make(stream.device_index());
  torch_npu::record_event(*event_, core_stream(stream));
  was_recorded_ = true;
}

void NPUEvent::recordOnce(const NPUStream& stream) {
  if (!was_recorded_) record(stream);
}

void NPUEvent::block(const NPUStream& stream) {
  if (event_ != nullptr) torch_npu::block_stream(*event_, core_stream(stream));
}

float NPUEvent::elapsed_time(const NPUEvent& other) const {
  TORCH_CHECK(was_recorded_ && other.was_recorded_, "both events must be recorded before the time between them can be told");
  return static_cast<float>(torch_npu::elapsed_ms(*event_, *other.event_));
}

void NPUEvent::synchronize() const {
  if (event_ != nullptr) torch_npu::synchronize_event(*event_);
}

void NPUEvent::ipc_handle(aclrtIpcEventHandle* handle) {
  TORCH_CHECK(handle != nullptr, "there is no place for the handle: a null pointer was given");
  TORCH_CHECK(is_shared(flags_), "other processes can open only an event that was made with ACL_EVENT_IPC");
  make(torch_npu::current_device());
  *handle = torch_npu::event_handle(*event_);
}

}  // namespace c10_npu
