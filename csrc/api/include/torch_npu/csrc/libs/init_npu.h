// For C++ programs without Python that link libtorch_npu.so.
//
//   torch_npu::init_npu("npu:0");
//   at::Tensor x = at::ones({2, 3}, at::Device("npu:0"));
//   torch::npu::synchronize();
//   torch_npu::finalize_npu();
#pragma once

#include <ATen/Device.h>

#include <string>

#include "torch_npu/csrc/core/npu/NPUMacros.h"

namespace torch_npu {

// Names torch's device type PrivateUse1 npu, and makes the device current. Throws if there is no such device.
TORCH_NPU_API void init_npu(const c10::DeviceIndex device_index = 0);
// `device_str` is, for example, "npu" or "npu:1".
TORCH_NPU_API void init_npu(const std::string& device_str);
TORCH_NPU_API void init_npu(const at::Device& device);

// Waits for all work of all devices and gives cached memory back. A device may be used again afterwards.
TORCH_NPU_API void finalize_npu();

}  // namespace torch_npu

namespace torch::npu {

// Waits for all work of a device; -1 is the current device.
TORCH_NPU_API void synchronize(int64_t device_index = -1);

}  // namespace torch::npu

namespace c10::npu {

TORCH_NPU_API DeviceIndex current_device();

}  // namespace c10::npu
