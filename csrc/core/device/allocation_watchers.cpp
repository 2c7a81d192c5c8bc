#include "core/device/allocation_watchers.h"

namespace torch_npu {

constinit std::atomic<uint32_t> detail::allocation_watchers{0};

}  // namespace torch_npu
