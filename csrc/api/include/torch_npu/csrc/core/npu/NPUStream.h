// Streams: ordered queues of device work. A stream is a value, a device and a number.
//
//   c10_npu::NPUStream stream = c10_npu::getCurrentNPUStream();
//   aclnnX(workspace, bytes, executor, stream.stream());
//
// Each thread has one current stream per device. Each device has its default stream and a pool that hands out streams in turn.
// Streams are never destroyed. Thread-safe.
#pragma once

#include <acl/acl_rt.h>
#include <c10/core/Stream.h>

#include "torch_npu/csrc/core/npu/NPUMacros.h"

namespace c10_npu {

class C10_NPU_API NPUStream {
 public:
  enum Unchecked { UNCHECKED };

  // Throws if `stream` is of another device type.
  explicit NPUStream(c10::Stream stream);
  NPUStream(Unchecked, c10::Stream stream) : stream_(stream) {}
  ~NPUStream() = default;

  bool operator==(const NPUStream& other) const noexcept { return stream_ == other.stream_; }
  bool operator!=(const NPUStream& other) const noexcept { return !(*this == other); }
  operator aclrtStream() const { return stream(); }
  operator c10::Stream() const { return stream_; }

  c10::DeviceType device_type() const { return stream_.device_type(); }
  c10::DeviceIndex device_index() const { return stream_.device_index(); }
  c10::Device device() const { return stream_.device(); }
  c10::StreamId id() const { return stream_.id(); }
  c10::Stream unwrap() const { return stream_; }
  c10::StreamData3 pack3() const { return stream_.pack3(); }
  static NPUStream unpack3(c10::StreamId stream_id, c10::DeviceIndex device_index, c10::DeviceType device_type);

  // Whether all submitted work is done.
  bool query() const;
  // Waits for all submitted work. A failed operator is reported here, once.
  void synchronize() const;

  // The handle for AscendCL. Null for a default stream: AscendCL then uses the default stream of the thread's device. Binds the
  // current device to the thread. `need_empty` has no effect, because there is no queue on the host.
  aclrtStream stream() const;
  aclrtStream stream(const bool need_empty) const;

  // A mark of the stream, which all copies of this object share. It has no effect.
  bool isDataPreprocessStream();
  void setDataPreprocessStream(bool is_data_preprocess_stream);

 private:
  c10::Stream stream_;
};

// `device_index` -1 is the current device.
C10_NPU_API NPUStream getCurrentNPUStream(c10::DeviceIndex device_index = -1);
C10_NPU_API NPUStream getDefaultNPUStream(c10::DeviceIndex device_index = -1);
// The next one of the pool.
C10_NPU_API NPUStream getNPUStreamFromPool(c10::DeviceIndex device = -1);
C10_NPU_API NPUStream getStreamFromPool(const bool isHighPriority = false, c10::DeviceIndex device = -1);
// For the calling thread and the stream's device. The current device does not change.
C10_NPU_API void setCurrentNPUStream(NPUStream stream);

}  // namespace c10_npu
