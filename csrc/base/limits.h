// Limits of the plugin that several rooms need.
#pragma once

namespace torch_npu {

constexpr int kMaxDevices = 64;

}  // namespace torch_npu
