// The device guard that torch calls, and guards without virtual calls for the plugin.
//
//   NPUGuard guard(tensor.device());                  // restores the current device
#pragma once

#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/InlineDeviceGuard.h>
#include <c10/core/impl/InlineStreamGuard.h>

#include "core/stream/all_work.h"
#include "core/stream/stream.h"

namespace torch_npu {

struct C10_EXPORT NPUGuardImpl final : c10::impl::DeviceGuardImplInterface {
  static constexpr c10::DeviceType static_type = kDeviceType;

  NPUGuardImpl() = default;
  explicit NPUGuardImpl(c10::DeviceType type);

  c10::DeviceType type() const override { return kDeviceType; }
  c10::Device exchangeDevice(c10::Device device) const override { return npu_device(exchange_device(device.index())); }
  c10::Device getDevice() const override { return npu_device(current_device()); }
  void setDevice(c10::Device device) const override { set_device(device.index()); }
  void uncheckedSetDevice(c10::Device device) const noexcept override;
  c10::DeviceIndex deviceCount() const noexcept override;
  c10::DeviceCapability getDeviceCapability(c10::Device device) const override;

  c10::Stream getStream(c10::Device device) const override;
  c10::Stream getDefaultStream(c10::Device device) const override;
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool high_priority = false) const override;
  c10::Stream getNewStream(c10::Device device, int priority = 0) const override;
  c10::Stream exchangeStream(c10::Stream stream) const override;
  void* getStreamNativeHandle(c10::Stream stream) const override;
  bool queryStream(const c10::Stream& stream) const override;
  void synchronizeStream(const c10::Stream& stream) const override;

  void record(void** event, const c10::Stream& stream, c10::DeviceIndex device, c10::EventFlag flag) const override;
  void block(void* event, const c10::Stream& stream) const override;
  bool queryEvent(void* event) const override;
  void destroyEvent(void* event, c10::DeviceIndex device) const noexcept override;
  void synchronizeEvent(void* event) const override;
  double elapsedTime(void* start, void* end, c10::DeviceIndex device) const override;

  void synchronizeDevice(c10::DeviceIndex device) const override { synchronize_device(device); }
  void recordDataPtrOnStream(const c10::DataPtr& pointer, const c10::Stream& stream) const override;
};

using NPUGuard = c10::impl::InlineDeviceGuard<NPUGuardImpl>;
using OptionalNPUGuard = c10::impl::InlineOptionalDeviceGuard<NPUGuardImpl>;
using NPUStreamGuard = c10::impl::InlineStreamGuard<NPUGuardImpl>;

}  // namespace torch_npu
