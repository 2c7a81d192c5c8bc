#include "core/stream/after_synchronize.h"

namespace torch_npu {

constinit std::atomic<AfterSynchronize> detail::after_synchronize_hook{nullptr};

}  // namespace torch_npu
