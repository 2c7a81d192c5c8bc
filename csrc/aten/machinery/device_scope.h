// Makes the device of an operator's tensors current while the operator runs.
//
//   const DeviceScope scope(self, other);      // the first of them that is on an npu
#pragma once

#include <ATen/core/IListRef.h>
#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>

#include <optional>

#include "core/device/device.h"

namespace torch_npu {

namespace detail {

constexpr c10::DeviceIndex kNone = -1;

inline c10::DeviceIndex index_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return kNone;
  const c10::Device device = tensor.device();
  return device.type() == kDeviceType ? device.index() : kNone;
}
inline c10::DeviceIndex index_of(const std::optional<at::Tensor>& tensor) {
  return tensor.has_value() ? index_of(*tensor) : kNone;
}
inline c10::DeviceIndex index_of(const std::optional<at::Device>& device) {
  return device.has_value() && device->type() == kDeviceType ? device->index() : kNone;
}
inline c10::DeviceIndex index_of(const at::Device& device) { return index_of(std::optional(device)); }
inline c10::DeviceIndex index_of(const at::ITensorListRef& tensors) {
  for (const at::Tensor& tensor : tensors) {
    if (const auto index = index_of(tensor); index != kNone) return index;
  }
  return kNone;
}
inline c10::DeviceIndex index_of(at::TensorList tensors) { return index_of(at::ITensorListRef(tensors)); }
inline c10::DeviceIndex index_of(const c10::List<std::optional<at::Tensor>>& tensors) {
  for (const std::optional<at::Tensor>& tensor : tensors) {
    if (const auto index = index_of(tensor); index != kNone) return index;
  }
  return kNone;
}

}  // namespace detail

class DeviceScope {
 public:
  // Takes tensors, optional tensors, tensor lists and devices. If none of them is on an npu, the current device stays.
  template <class... Operands>
  explicit DeviceScope(const Operands&... operands) : state_(detail::thread_state()), previous_(state_.current_device) {
    c10::DeviceIndex index = detail::kNone;
    (void)(((index = detail::index_of(operands)) != detail::kNone) || ...);
    if (index != detail::kNone) state_.current_device = index;
  }
  ~DeviceScope() { state_.current_device = previous_; }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  detail::ThreadState& state_;
  const c10::DeviceIndex previous_;
};

}  // namespace torch_npu
