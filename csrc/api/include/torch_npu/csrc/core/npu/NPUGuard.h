// Guards that set the current device or stream for a scope.
//
//   const c10_npu::OptionalNPUGuard guard(at::device_of(tensor));
//   const c10_npu::NPUStreamGuard on_side(c10_npu::getNPUStreamFromPool());      // makes the stream's device current, too
#pragma once

#include <c10/core/DeviceGuard.h>
#include <c10/core/StreamGuard.h>

#include <optional>

#include "torch_npu/csrc/core/npu/NPUStream.h"

namespace c10_npu {

struct NPUGuard : c10::DeviceGuard {
  using DeviceGuard::DeviceGuard;
  explicit NPUGuard(c10::DeviceIndex index) : DeviceGuard(c10::Device(c10::DeviceType::PrivateUse1, index)) {}
};

using OptionalNPUGuard = c10::OptionalDeviceGuard;

class NPUStreamGuard {
 public:
  // Throws if `stream` is of another device type.
  explicit NPUStreamGuard(c10::Stream stream) : guard_(NPUStream(stream).unwrap()) {}
  NPUStreamGuard(const NPUStreamGuard&) = delete;
  NPUStreamGuard& operator=(const NPUStreamGuard&) = delete;

  // Restores the original stream, then makes `stream` current.
  void reset_stream(c10::Stream stream) { guard_.reset_stream(NPUStream(stream).unwrap()); }

  // The previous stream of the device of the constructor's argument.
  NPUStream original_stream() const { return NPUStream(NPUStream::UNCHECKED, guard_.original_stream()); }
  NPUStream current_stream() const { return NPUStream(NPUStream::UNCHECKED, guard_.current_stream()); }
  c10::Device current_device() const { return guard_.current_device(); }
  c10::Device original_device() const { return guard_.original_device(); }

 private:
  c10::StreamGuard guard_;
};

}  // namespace c10_npu
