// The hooks that torch calls through at::globalContext().
//
//   auto& hooks = static_cast<const c10_npu::NPUHooksInterface&>(at::detail::getPrivateUse1Hooks());
#pragma once

#include <ATen/detail/PrivateUse1HooksInterface.h>

#include "torch_npu/csrc/core/npu/NPUMacros.h"

namespace c10_npu {

struct TORCH_NPU_API NPUHooksInterface : at::PrivateUse1HooksInterface {
  const at::Generator& getDefaultGenerator(c10::DeviceIndex device_index) const override;
};

}  // namespace c10_npu
