// Events: marks in a stream's order, taken from a pool.
//
//   NPUEvent event;
//   event.record(producer);
//   event.block(consumer);      // consumer's later work starts after the mark
//
// A never recorded event counts as reached. Recording again moves the mark; who already waits keeps the older one.
#pragma once

#include "core/stream/stream.h"

namespace torch_npu {

enum class Timing : bool { kOff, kOn };

// What the pool holds. Its device is that of the first stream it is recorded on.
struct PooledEvent {
  aclrtEvent handle;
  c10::DeviceIndex device;
  Timing timing;
};

// An event of `device` from the pool, or a new one.
C10_EXPORT PooledEvent* take_event(c10::DeviceIndex device, Timing timing);
// Back to the pool; a pending mark does not matter. Never throws.
C10_EXPORT void return_event(PooledEvent* event) noexcept;

C10_EXPORT void record_event(const PooledEvent& event, NPUStream stream);
C10_EXPORT void block_stream(const PooledEvent& event, NPUStream stream);
C10_EXPORT bool event_reached(const PooledEvent& event);
C10_EXPORT void synchronize_event(const PooledEvent& event);
// The same for whoever gives memory back: errors of earlier frees are left for the program's next synchronising call.
C10_EXPORT void wait_for_event(const PooledEvent& event);
// Milliseconds from `start` to `end`; throws unless both have timing and are reached.
C10_EXPORT double elapsed_ms(const PooledEvent& start, const PooledEvent& end);
// Microseconds of the device's clock at the mark; throws unless the event has timing and is reached.
C10_EXPORT uint64_t event_time(const PooledEvent& event);

// Movable owner of a pooled event. Not thread-safe.
class NPUEvent {
 public:
  explicit NPUEvent(Timing timing = Timing::kOff) : timing_(timing) {}
  NPUEvent(NPUEvent&& other) noexcept : timing_(other.timing_), event_(std::exchange(other.event_, nullptr)) {}
  NPUEvent& operator=(NPUEvent&& other) noexcept {
    std::swap(timing_, other.timing_);
    std::swap(event_, other.event_);
    return *this;
  }
  ~NPUEvent() {
    if (event_ != nullptr) return_event(event_);
  }

  void record(NPUStream stream) {
    if (event_ == nullptr) event_ = take_event(stream.device_index(), timing_);
    record_event(*event_, stream);
  }
  void block(NPUStream stream) const {
    if (event_ != nullptr) block_stream(*event_, stream);
  }
  // The caller gives it back, by return_event(); null if it was never recorded.
  PooledEvent* release() { return std::exchange(event_, nullptr); }

  bool query() const { return event_ == nullptr || event_reached(*event_); }
  void synchronize() const {
    if (event_ != nullptr) synchronize_event(*event_);
  }
  // wait_for_event()
  void wait() const {
    if (event_ != nullptr) wait_for_event(*event_);
  }

 private:
  Timing timing_;
  PooledEvent* event_ = nullptr;
};

}  // namespace torch_npu
