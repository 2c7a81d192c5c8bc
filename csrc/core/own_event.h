// Events that do not come from the pool: one that other processes open by its handle, and one that can be reset.
//
//   OwnEvent event(OwnEvent::Kind::kShared, 0);
//   send(event.handle());                             // 64 bytes; OwnEvent::open(handle, device) in the other process
//   event.record(stream);
//
// An event that nobody recorded counts as reached. Not thread-safe.
#pragma once

#include <string>

#include "core/stream.h"

namespace torch_npu {

class C10_EXPORT OwnEvent {
 public:
  enum class Kind : bool { kShared, kResettable };

  OwnEvent(Kind kind, c10::DeviceIndex device);
  // The event of another process, or of this one. Throws if `handle` is no handle of a living event.
  static OwnEvent open(const std::string& handle, c10::DeviceIndex device);
  OwnEvent(OwnEvent&& other) noexcept : device_(other.device_), event_(std::exchange(other.event_, nullptr)) {}
  OwnEvent& operator=(OwnEvent&&) = delete;
  ~OwnEvent();

  c10::DeviceIndex device() const { return device_; }
  aclrtEvent event() const { return event_; }

  void record(NPUStream stream) const;
  void block(NPUStream stream) const;
  // For resettable ones: as if never recorded.
  void reset(NPUStream stream) const;
  bool query() const;
  void synchronize() const;
  // For shared ones: what open() takes.
  std::string handle() const;

 private:
  OwnEvent(c10::DeviceIndex device, aclrtEvent event) : device_(device), event_(event) {}

  c10::DeviceIndex device_;
  aclrtEvent event_ = nullptr;
};

}  // namespace torch_npu
