// Events: marks in the order of a stream. Their handles come from a pool.
//
//   NPUEvent event;
//   event.record(producer);
//   event.block(consumer);      // consumer's later work starts after the mark
//
// An event that was never recorded counts as reached. Recording again moves the mark; a wait that has begun keeps the older mark.
#pragma once

#include "core/stream/stream.h"

namespace torch_npu {

enum class Timing : bool { kOff, kOn };

// An event of one device, as the pool holds it.
struct PooledEvent {
  aclrtEvent handle;
  c10::DeviceIndex device;
  Timing timing;
};

// An event of `device` from the pool, or a new one.
C10_EXPORT PooledEvent* take_event(c10::DeviceIndex device, Timing timing);
// Returns the event to the pool. Its mark may still be pending. Never throws.
C10_EXPORT void return_event(PooledEvent* event) noexcept;

C10_EXPORT void record_event(const PooledEvent& event, NPUStream stream);
C10_EXPORT void block_stream(const PooledEvent& event, NPUStream stream);
C10_EXPORT bool event_reached(const PooledEvent& event);
C10_EXPORT void synchronize_event(const PooledEvent& event);
// The same without after_synchronize(), for code that gives memory back: it must not throw the late errors of other memory.
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
  // The caller owns the event and calls return_event(). Null if it was never recorded.
  PooledEvent* release() { return std::exchange(event_, nullptr); }

  bool query() const { return event_ == nullptr || event_reached(*event_); }
  void synchronize() const {
    if (event_ != nullptr) synchronize_event(*event_);
  }
  // As wait_for_event().
  void wait() const {
    if (event_ != nullptr) wait_for_event(*event_);
  }

 private:
  Timing timing_;
  PooledEvent* event_ = nullptr;
};

}  // namespace torch_npu
