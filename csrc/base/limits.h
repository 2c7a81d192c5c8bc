// Limits that several folders of the plugin use.
#pragma once

namespace torch_npu {

constexpr int kMaxDevices = 64;

}  // namespace torch_npu
