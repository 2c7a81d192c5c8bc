// Shows a program where it makes the host wait for the device: torch.npu.set_sync_debug_mode.
//
//   report_sync("aten::nonzero", "its result has as many rows as the device finds");
//   stream.synchronize();
//
// Operators and calls that make the program wait call report_sync() before the wait. It costs one load while the mode is off.
// Waits that the program cannot avoid, such as the allocator's, and the explicit torch.npu.synchronize() are not reported.
// Thread-safe.
#pragma once

#include <c10/macros/Export.h>

#include <atomic>
#include <cstdint>

#include "core/stream/open_captures.h"

namespace torch_npu {

enum class SyncDebug : int8_t { kOff, kWarn, kError };

namespace detail {

C10_EXPORT extern constinit std::atomic<SyncDebug> sync_debug;
C10_EXPORT void tell_sync(const char* what, const char* why);

}  // namespace detail

inline SyncDebug sync_debug_mode() { return detail::sync_debug.load(std::memory_order_relaxed); }
inline void set_sync_debug_mode(SyncDebug mode) { detail::sync_debug.store(mode, std::memory_order_relaxed); }

// Warns or throws, depending on the mode. Always throws if the current stream is captured.
inline void report_sync(const char* what, const char* why) {
  if (captures_exist()) [[unlikely]]
    refuse_wait_in_capture(what, why);
  if (sync_debug_mode() != SyncDebug::kOff) [[unlikely]]
    detail::tell_sync(what, why);
}

}  // namespace torch_npu
