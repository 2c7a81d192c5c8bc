// Streams: ordered queues of device work.
//
//   NPUStream stream = getCurrentNPUStream();      // of the current device; binds that device
//   aclnnX(workspace, bytes, executor, stream.stream());
//
// A stream is a value: a device and a StreamId. Each device has its default stream (StreamId 0) and two pools, of normal and of
// high priority, with 32 streams each (8 with STREAMS_PER_DEVICE=8). Streams of the pools are created at their first use, handed
// out in turn, and never destroyed. Each thread has one current stream per device. externalStream() wraps other streams.
#pragma once

#include <c10/core/Stream.h>
#include <c10/macros/Export.h>

#include "acl/acl_rt.h"
#include "core/device/device.h"

namespace torch_npu {

class C10_EXPORT NPUStream {
 public:
  // Throws if `stream` is of another device type.
  explicit NPUStream(c10::Stream stream);
  NPUStream(c10::DeviceIndex device, c10::StreamId id) : stream_(c10::Stream::UNSAFE, npu_device(device), id) {}

  bool operator==(const NPUStream& other) const noexcept { return stream_ == other.stream_; }
  bool operator!=(const NPUStream& other) const noexcept { return !(*this == other); }
  operator c10::Stream() const { return stream_; }

  // The ACL handle. Null for a default stream: ACL then uses the default stream of the bound device, so bind the stream's device
  // first.
  aclrtStream stream() const { return id() == 0 ? nullptr : pool_handle(); }

  c10::DeviceIndex device_index() const { return stream_.device_index(); }
  c10::Device device() const { return stream_.device(); }
  c10::StreamId id() const { return stream_.id(); }
  c10::Stream unwrap() const { return stream_; }
  // -1 for high priority, else 0.
  int priority() const;

  // Whether all submitted work is done.
  bool query() const;
  // Waits for all submitted work. Throws the failure of a task, once. Can be interrupted, as every wait (core/stream/wait.h).
  void synchronize() const;

 private:
  aclrtStream pool_handle() const;

  c10::Stream stream_;
};

// The calling thread's stream of `device` (-1: the current device). Binds the current device to the thread.
inline NPUStream getCurrentNPUStream(c10::DeviceIndex device = -1) {
  bind_device();
  const detail::ThreadState& state = detail::thread_state();
  const c10::DeviceIndex index = device < 0 ? state.current_device : device;
  return NPUStream(index, state.current_streams[static_cast<size_t>(index)]);
}
// The current stream of a device, without binding the device. Throws if the device does not exist.
inline NPUStream current_stream_of(c10::DeviceIndex device) {
  const c10::DeviceIndex index = checked_device(device);
  return NPUStream(index, detail::thread_state().current_streams[static_cast<size_t>(index)]);
}
C10_EXPORT NPUStream getDefaultNPUStream(c10::DeviceIndex device = -1);
// The next one of the pool.
C10_EXPORT NPUStream getNPUStreamFromPool(bool high_priority = false, c10::DeviceIndex device = -1);
// `handle` must outlive all uses of the stream. The same handle gives the same stream.
C10_EXPORT NPUStream externalStream(aclrtStream handle, c10::DeviceIndex device);
// For the calling thread and the stream's device. The current device does not change.
C10_EXPORT void setCurrentNPUStream(NPUStream stream);

}  // namespace torch_npu

template <>
struct std::hash<torch_npu::NPUStream> {
  size_t operator()(torch_npu::NPUStream stream) const noexcept { return std::hash<c10::Stream>{}(stream.unwrap()); }
};
