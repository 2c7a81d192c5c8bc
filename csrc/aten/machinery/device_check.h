// A function with a check in front: all tensors must be on one device. PyTorch generates that check for its own devices only.
//
//   m.impl("ormqr", TORCH_FN(DeviceChecked<&at::native::ormqr>::call));
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/op_registration/adaption.h>

#include <optional>
#include <type_traits>
#include <utility>

namespace torch_npu {

template <auto kFunction>
struct DeviceChecked;

template <class Return, class... Arguments, Return (*kFunction)(Arguments...)>
struct DeviceChecked<kFunction> {
  static Return call(Arguments... arguments) {
    std::optional<c10::Device> device;
    (check(device, arguments), ...);
    return kFunction(std::forward<Arguments>(arguments)...);
  }

 private:
  template <class Argument>
  static void check(std::optional<c10::Device>& device, const Argument& argument) {
    if constexpr (std::is_same_v<Argument, at::Tensor> || std::is_same_v<Argument, std::optional<at::Tensor>>) {
      c10::impl::check_and_update_common_device(device, argument, "an operator of npu", "tensor");
    }
  }
};

}  // namespace torch_npu
