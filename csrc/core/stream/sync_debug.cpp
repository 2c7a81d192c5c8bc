#include "core/stream/sync_debug.h"

#include <c10/util/Exception.h>

namespace torch_npu::detail {

constinit std::atomic<SyncDebug> sync_debug{SyncDebug::kOff};

void tell_sync(const char* what, const char* why) {
  const bool is_error = sync_debug_mode() == SyncDebug::kError;
  const std::string text = c10::str(what, " waits for the device: ", why, ". torch.npu.set_sync_debug_mode(\"",
                                    is_error ? "error" : "warn", "\") asked to be told; \"default\" ends that.");
  TORCH_CHECK(!is_error, text);
  TORCH_WARN(text);
}

}  // namespace torch_npu::detail
