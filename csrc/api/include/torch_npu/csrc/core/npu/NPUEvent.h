// Events: marks in the order of a stream.
//
//   c10_npu::NPUEvent event;
//   event.record(producer);
//   event.block(consumer);      // consumer's later work starts after the mark
//
// An event is created when it is first recorded or its handle is first requested, and belongs to the device of that call. An
// event that was never recorded counts as reached. Recording again moves the mark; a wait that has begun keeps the older mark.
// Not thread-safe.
#pragma once

#include <ATen/Device.h>

#include <optional>

#include "torch_npu/csrc/core/npu/NPUStream.h"

namespace torch_npu {
struct PooledEvent;
}

namespace c10_npu {

class C10_NPU_API NPUEvent {
 public:
  // Without timing.
  NPUEvent();
  // ACL_EVENT_TIME_LINE: with timing. ACL_EVENT_IPC, by itself: other processes can open it. The others change nothing here.
  explicit NPUEvent(unsigned int flags);
  // Opens the event of another process, whose ipc_handle() gave `handle`.
  NPUEvent(c10::DeviceIndex device_index, const aclrtIpcEventHandle* handle);
  NPUEvent(NPUEvent&& other);
  NPUEvent& operator=(NPUEvent&& other);
  ~NPUEvent();
  NPUEvent(const NPUEvent&) = delete;
  NPUEvent& operator=(const NPUEvent&) = delete;

  operator aclrtEvent() const { return event(); }

  // None until the event is created.
  std::optional<at::Device> device() const;
  bool isCreated() const { return event_ != nullptr; }
  // -1 until the event is created.
  c10::DeviceIndex device_index() const;
  // Null until the event is created.
  aclrtEvent event() const;

  bool query() const;
  // On the current stream.
  void record();
  void record(const NPUStream& stream);
  // Does nothing if it was recorded before.
  void recordOnce(const NPUStream& stream);
  void block(const NPUStream& stream);
  // Milliseconds from this event to `other`. Throws unless both have timing and are reached.
  float elapsed_time(const NPUEvent& other) const;
  void synchronize() const;

  // The handle for another process. Requires ACL_EVENT_IPC. Creates the event on the current device if it does not exist yet.
  void ipc_handle(aclrtIpcEventHandle* handle);

 private:
  void make(c10::DeviceIndex device);

  unsigned int flags_;
  bool was_recorded_ = false;
  torch_npu::PooledEvent* event_ = nullptr;
};

}  // namespace c10_npu
